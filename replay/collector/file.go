package collector

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/file"
)

// DefaultName returns the name of a report file in a directory, by local time.
func DefaultName(at time.Time) string {
	return "replay_report_" + at.Format("20060102_150405") + ".json"
}

// ResolvePath returns path itself, or the path of a file named after at if path is a directory or ends like one. An
// empty path means the current directory and gives an absolute path.
func ResolvePath(path string, at time.Time) (string, error) {
	if path == "" {
		return filepath.Abs(DefaultName(at))
	}
	st, err := os.Stat(path)
	if err == nil && st.IsDir() || os.IsPathSeparator(path[len(path)-1]) {
		return filepath.Join(path, DefaultName(at)), nil
	}
	return path, nil
}

// WriteFile calls write to fill the file at path, and creates missing directories. The old file stays until the new
// file is complete: readers see the old file or the new file, never a part, also after an error or a kill. WriteFile
// writes directly to devices, pipes and the standard streams.
func WriteFile(path string, write func(io.Writer) error) error {
	switch path {
	case "/dev/stdout":
		return write(os.Stdout)
	case "/dev/stderr":
		return write(os.Stderr)
	}
	st, err := file.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return fmt.Errorf("%s: is a directory, must be a file", path)
	case err == nil && (!st.Mode().IsRegular() || ownStream(path)):
		return writeDirect(path, write)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	target, err := followLink(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o666)
	if st != nil {
		mode = st.Mode().Perm()
	}
	return replaceFile(target, mode, write)
}

// ownStream reports whether path is a name of an open file of this process, such as /dev/fd/3. If a file were renamed
// to this path, readers of the open file would be disconnected.
func ownStream(path string) bool {
	clean := filepath.Clean(path)
	return strings.HasPrefix(clean, "/dev/fd/") || strings.HasPrefix(clean, "/proc/")
}

func writeDirect(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// followLink returns the file that path links to, so that a rename replaces the file and not the link.
func followLink(path string) (string, error) {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return path, nil
	}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: is a link to nothing, must be a file", path)
	}
	return target, err
}

func replaceFile(path string, mode fs.FileMode, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	f, err := createTemp(dir, mode)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	renamed := false // after the rename, the name may belong to another file
	defer func() {
		if !renamed {
			os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	err = os.Rename(f.Name(), path)
	renamed = err == nil
	return err
}

// createTemp opens a new file in dir. Unlike os.CreateTemp, createTemp applies the umask of the process to mode.
func createTemp(dir string, mode fs.FileMode) (*os.File, error) {
	const tries = 10_000
	for i := range tries {
		name := fmt.Sprintf(".replay-%d-%d.tmp", os.Getpid(), i)
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s: %d temporary files are in the way", dir, tries)
}
