//go:build !windows

package cli

import "os"

// takesEscapes reports whether a terminal supports escape sequences.
func takesEscapes(*os.File) bool { return true }
