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

// Group is a directory of run directories in the making. It appears as a whole.
type Group struct {
	path string
	dir  string // next to path, until it is kept
}

// NewGroup begins a group at path, where there may be nothing yet.
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

// checkNothing refuses a path at which there is something.
func checkNothing(path string) error {
	if _, err := file.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s: exists, must be a new path", path)
		}
		return err
	}
	return nil
}

// Write makes the run directory of that name in the group, with files and run.json in it.
func (g *Group) Write(ctx context.Context, r *Run, name string, files []File) error {
	dir, path := filepath.Join(g.dir, name), filepath.Join(g.path, name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return r.store(ctx, dir, path, files)
}

// Keep gives the group its name.
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
