package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// takesEscapes reports whether a console takes escape sequences, which it must be asked to do.
func takesEscapes(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
