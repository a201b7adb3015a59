//go:build !unix

package cli

// becomeProgram does nothing where a process cannot become another program.
func becomeProgram(string, []string) error { return nil }
