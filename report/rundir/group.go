package rundir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/internal/file"
)

// Group is an unfinished directory of run directories. The directory of a Group appears only when it is complete.
type Group struct {
	path string
	dir  string // next to path, until it is kept
}

// NewGroup begins a group at path, where no file may exist.
func NewGroup(path string) (*Group, error) {
	path = filepath.Clean(path)
	if err := checkNothing(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	dir, err := makeNextTo(path)
	if err != nil {
		return nil, err
	}
	return &Group{path, dir}, nil
}

// checkNothing rejects a path that exists.
func checkNothing(path string) error {
	if _, err := file.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s: exists, must be a new path", path)
		}
		return err
	}
	return nil
}

// Write writes the run directory with this name into the group, with files and run.json.
func (g *Group) Write(ctx context.Context, r *Run, name string, files []File) error {
	dir, path := filepath.Join(g.dir, name), filepath.Join(g.path, name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return r.store(ctx, dir, path, files)
}

// Keep moves the complete group to its path.
func (g *Group) Keep() error {
	if err := checkNothing(g.path); err != nil {
		return err
	}
	if err := os.Rename(g.dir, g.path); err != nil {
		return err
	}
	g.dir = ""
	return nil
}

// Close removes a group that has not been kept.
func (g *Group) Close() error {
	if g.dir == "" {
		return nil
	}
	return os.RemoveAll(g.dir)
}
