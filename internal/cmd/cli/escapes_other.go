//go:build !windows

package cli

import "os"

// takesEscapes reports whether a terminal takes escape sequences.
func takesEscapes(*os.File) bool { return true }
