package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// takesEscapes enables escape sequences in a console, and reports whether that succeeded.
func takesEscapes(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
