package rundir

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/replay-llm/replay/internal/file"
)

// Replace states which existing files a new run directory may replace.
type Replace uint8

const (
	ReplaceNothing  Replace = iota
	ReplaceRun              // another run directory
	ReplaceAnything         // any file or directory
)

// Check rejects a path at which no directory can be created.
func Check(path string, over Replace) error {
	st, err := file.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case over == ReplaceAnything:
		return nil
	case over == ReplaceRun:
		if _, err := Open(path); err == nil && st.IsDir() {
			return nil
		}
		return fmt.Errorf("%s: exists and is no run directory, must be a new path or --force", path)
	}
	return fmt.Errorf("%s: exists, must be a new path, --overwrite for another run directory or --force", path)
}

// File is a file to write into a run directory, in addition to run.json.
type File struct {
	Name  string
	Write func(io.Writer) error
}

// Write creates the directory at path with files and run.json. The directory appears only when it is complete: it is
// created next to path and then renamed. If this fails, or if ctx ends before, no file remains.
func (r *Run) Write(ctx context.Context, path string, over Replace, files []File) (err error) {
	if err := Check(path, over); err != nil {
		return err
	}
	path = filepath.Clean(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	dir, err := makeNextTo(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if err := r.store(ctx, dir, path, files); err != nil {
		return err
	}
	return swapInto(dir, path, over)
}

// store writes files and run.json into dir, which is later renamed to path.
func (r *Run) store(ctx context.Context, dir, path string, files []File) (err error) {
	r.Layout = Layout
	if r.Files, err = storeAll(ctx, dir, path, files); err != nil {
		return err
	}
	if _, err := storeFile(ctx, dir, File{RunFile, r.writeJSON}); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(path, RunFile), err)
	}
	return nil
}

// storeAll writes files into dir, which is later renamed to path. storeAll writes files in parallel, since waiting
// for the disk takes as long as formatting them.
func storeAll(ctx context.Context, dir, path string, files []File) ([]Stored, error) {
	all, errs := make([]Stored, len(files)), make([]error, len(files))
	var wg sync.WaitGroup
	for i, f := range files {
		wg.Go(func() {
			var err error
			if all[i], err = storeFile(ctx, dir, f); err != nil {
				errs[i] = fmt.Errorf("%s: %w", filepath.Join(path, f.Name), err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err // the first in the order of files
		}
	}
	return all, nil
}

// makeNextTo makes a new directory next to path.
func makeNextTo(path string) (string, error) {
	const tries = 10_000
	for i := range tries {
		dir := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d-%d.tmp", filepath.Base(path), os.Getpid(), i))
		err := os.Mkdir(dir, 0o777)
		if !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
	return "", fmt.Errorf("%s: %d temporary directories are in the way", path, tries)
}

// storeFile writes one file and syncs it to disk.
func storeFile(ctx context.Context, dir string, file File) (Stored, error) {
	f, err := os.OpenFile(filepath.Join(dir, file.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return Stored{}, err
	}
	h := sha256.New()
	err = file.Write(io.MultiWriter(UntilDone(ctx, f), h))
	if err == nil {
		err = f.Sync()
	}
	size, _ := f.Seek(0, io.SeekCurrent)
	return Stored{Name: file.Name, Bytes: size, SHA256: sumFile(h)}, errors.Join(err, f.Close())
}

// swapInto renames dir to path. An existing path is moved away first, and moved back if this fails.
func swapInto(dir, path string, over Replace) error {
	if err := Check(path, over); err != nil {
		return err
	}
	aside := ""
	if _, err := os.Lstat(path); err == nil {
		aside = dir + ".old"
		if err := os.Rename(path, aside); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, path); err != nil {
		if aside != "" {
			err = errors.Join(err, os.Rename(aside, path))
		}
		return err
	}
	if aside != "" {
		return os.RemoveAll(aside)
	}
	return nil
}

// UntilDone returns a writer to out that fails once ctx has ended.
func UntilDone(ctx context.Context, out io.Writer) io.Writer { return untilDone{ctx, out} }

type untilDone struct {
	ctx context.Context
	out io.Writer
}

func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.out.Write(p)
}
