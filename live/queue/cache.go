package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/replay-llm/replay/plan"
)

// Cache keeps files of sweeps on disk, under their digests. Several processes
// may use one directory.
type Cache struct {
	dir  string
	most int64 // bytes; what was not used for a while goes first

	mutex   sync.Mutex
	checked map[string]os.FileInfo // files whose digest was found right
}

// NewCache returns a cache in dir of at most so many bytes.
func NewCache(dir string, most int64) (*Cache, error) {
	return &Cache{dir: dir, most: most, checked: map[string]os.FileInfo{}}, os.MkdirAll(dir, 0o755)
}

// fetchPath returns where the file of a digest lies, after it was fetched if need be.
func (c *Cache) fetchPath(ctx context.Context, q *Queue, digest string, notify func(string)) (string, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	path := filepath.Join(c.dir, digest)
	now := time.Now()
	if stat, err := os.Stat(path); err == nil {
		if c.isUnchanged(digest, stat) {
			return path, c.touchFile(digest, stat, now)
		}
		sum, err := plan.HashFile(path)
		if err != nil {
			return "", err
		}
		if sum == digest {
			c.checked[digest] = stat
			return path, nil
		}
		notify(fmt.Sprintf("%s: digest is %s, want that of its name: fetched again", path, sum))
	}
	if err := c.fetchFile(ctx, q, digest); err != nil {
		return "", err
	}
	return path, c.removeOldest(digest, now)
}

// touchFile notes that a file is still used, now and then.
func (c *Cache) touchFile(digest string, stat os.FileInfo, now time.Time) error {
	if now.Sub(stat.ModTime()) < young/2 {
		return nil
	}
	path := filepath.Join(c.dir, digest)
	if err := os.Chtimes(path, now, now); err != nil {
		return err
	}
	touched, err := os.Stat(path)
	c.checked[digest] = touched
	return err
}

// isUnchanged reports whether a file is the one that was checked.
func (c *Cache) isUnchanged(digest string, stat os.FileInfo) bool {
	before := c.checked[digest]
	return before != nil && os.SameFile(before, stat) && before.Size() == stat.Size() && before.ModTime().Equal(stat.ModTime())
}

// fetchFile gets a file from the server and puts it in its place when it is whole.
func (c *Cache) fetchFile(ctx context.Context, q *Queue, digest string) error {
	f, err := os.CreateTemp(c.dir, "fetching-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = func() error {
		object, err := q.files.Get(ctx, digest)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, object)
		return errors.Join(err, object.Close())
	}()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	sum, err := plan.HashFile(f.Name())
	if err != nil {
		return err
	}
	if sum != digest {
		return fmt.Errorf("file %s on the server: digest is %s, want that of its name", digest, sum)
	}
	path := filepath.Join(c.dir, digest)
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	stat, err := os.Stat(path)
	c.checked[digest] = stat
	return err
}

// young is for how long a file is kept whatever the size of the cache: somebody
// may be about to read it.
const young = time.Hour

// removeOldest removes old files until the cache is small enough.
func (c *Cache) removeOldest(keep string, now time.Time) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	total := int64(0)
	for _, e := range entries {
		if stat, err := e.Info(); err == nil && stat.Mode().IsRegular() {
			files = append(files, stat)
			total += stat.Size()
		}
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if total <= c.most || now.Sub(f.ModTime()) < young {
			break
		}
		if f.Name() != keep {
			// Another process may have been faster.
			_ = os.Remove(filepath.Join(c.dir, f.Name()))
			total -= f.Size()
		}
	}
	return nil
}
