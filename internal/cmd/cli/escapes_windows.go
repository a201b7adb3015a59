package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// supportsEscapes enables escape sequences in a console, and reports whether that succeeded.
func supportsEscapes(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
