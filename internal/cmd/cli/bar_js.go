package cli

import "io"

// newBar returns a Progress that shows nothing: a browser has no terminal, and the library has a web server in it.
func newBar(io.Writer, string, int) *Progress { return nil }
