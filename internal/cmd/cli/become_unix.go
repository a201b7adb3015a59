//go:build unix

package cli

import (
	"os"
	"syscall"
)

// becomeProgram makes this process the program at path. It returns only an error.
func becomeProgram(path string, args []string) error {
	return syscall.Exec(path, append([]string{path}, args...), os.Environ())
}
