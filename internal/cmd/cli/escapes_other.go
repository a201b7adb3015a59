//go:build !windows

package cli

import "os"

// supportsEscapes reports whether a terminal supports escape sequences.
func supportsEscapes(*os.File) bool { return true }
