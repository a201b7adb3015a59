//go:build !unix

package cli

// become does nothing where a process cannot become another program.
func become(string, []string) error { return nil }
