// Package file returns the state of files. The errors have the format of errors of os.Open: they name the file and
// not the system call.
package file

import (
	"errors"
	"io/fs"
	"os"
)

// Stat returns os.Stat of path with an error in the format of os.Open.
func Stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	return info, rewordError(err)
}

// Lstat returns os.Lstat of path with an error in the format of os.Open.
func Lstat(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	return info, rewordError(err)
}

// rewordError returns err in the format of errors of os.Open.
func rewordError(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return &fs.PathError{Op: "open", Path: of.Path, Err: of.Err}
	}
	return err
}
