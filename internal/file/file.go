// Package file returns the state of files. Its errors are in the words of os.Open and os.Create, which name the file and
// not the system call.
package file

import (
	"errors"
	"io/fs"
	"os"
)

// Stat returns os.Stat of path.
func Stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	return info, rewordError(err)
}

// Lstat returns os.Lstat of path.
func Lstat(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	return info, rewordError(err)
}

// rewordError returns err as os.Open returns it.
func rewordError(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return &fs.PathError{Op: "open", Path: of.Path, Err: of.Err}
	}
	return err
}
