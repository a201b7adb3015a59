//go:build unix

package cli

import (
	"os"
	"syscall"
)

// becomeProgram replaces the program of this process with the program at path. becomeProgram returns only if it
// fails.
func becomeProgram(path string, args []string) error {
	return syscall.Exec(path, append([]string{path}, args...), os.Environ())
}
