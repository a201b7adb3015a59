package write

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Output is a file that appears when it is complete, packed with gzip where its
// name ends in .gz.
type Output struct {
	w    io.Writer
	path string
	file *os.File // nil for standard output
	gzip *gzip.Writer
}

// Create creates a file for path, with its directories. "" and "-" mean stdout. The caller must call Commit or Abort.
func Create(path string, stdout io.Writer) (*Output, error) {
	if path == "" || path == "-" {
		return &Output{w: stdout}, nil
	}
	if stat, err := os.Stat(path); err == nil && !stat.Mode().IsRegular() && !stat.IsDir() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0) // a device or a pipe
		return &Output{w: file, file: file}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	o := &Output{w: file, path: path, file: file}
	if strings.HasSuffix(path, ".gz") {
		o.gzip = gzip.NewWriter(file)
		o.w = o.gzip
	}
	return o, nil
}

func (o *Output) Write(p []byte) (int, error) { return o.w.Write(p) }

// Commit completes the file and renames it to its path.
func (o *Output) Commit() error {
	if o.gzip != nil {
		if err := o.gzip.Close(); err != nil {
			o.Abort()
			return err
		}
	}
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	if err == nil && o.path != "" {
		if err = os.Chmod(o.file.Name(), 0o644); err == nil {
			err = os.Rename(o.file.Name(), o.path)
		}
	}
	if err != nil {
		o.Abort()
	}
	return err
}

// Abort removes the incomplete file.
func (o *Output) Abort() {
	if o.file == nil || o.path == "" {
		return
	}
	o.file.Close()
	os.Remove(o.file.Name())
}
