//go:build !unix

package cli

// becomeProgram does nothing, because this system cannot replace the program of a process.
func becomeProgram(string, []string) error { return nil }
