package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/formats/sessions"
)

// hubTable is a table of a data set. A table has one or several files.
type hubTable struct {
	name  string // directory and split
	files []string
}

// findHubTable returns the sorted files of a data set from a hub. dir can be a directory of the cache
// (datasets--OWNER--NAME), a copy of the repository, or a directory saved by the library datasets. For other
// directories findHubTable returns no files.
func findHubTable(dir string) ([]string, error) {
	root, err := findSnapshot(dir)
	if err != nil {
		return nil, err
	}
	byKind, err := listData(root)
	if err != nil {
		return nil, err
	}
	for _, kind := range dataKinds() {
		files := byKind[kind]
		switch {
		case len(files) == 0:
			continue
		case root == dir && !isHub(dir, kind) || startsWeka(files[0]):
			return nil, nil
		}
		table, err := chooseTable(root, groupTables(root, files))
		if err == nil && len(table) > 1 && (kind == ".json" || kind == ".csv") {
			err = fmt.Errorf("%d files of %s, must be one of them", len(table), kind)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		return table, nil
	}
	if root != dir {
		return nil, fmt.Errorf("%s: no data files in it: must have files of %s", dir, strings.Join(dataKinds(), ", "))
	}
	return nil, nil
}

// dataKinds returns the extensions of data files. If a directory has files with several of these extensions, the
// first extension is used.
func dataKinds() []string { return []string{".parquet", ".arrow", ".jsonl", ".csv", ".json"} }

// findSnapshot returns the directory with the files of a download. In a directory of the cache, this is the main
// revision or the only revision.
func findSnapshot(dir string) (string, error) {
	snapshots := filepath.Join(dir, "snapshots")
	all, err := os.ReadDir(snapshots)
	if err != nil {
		return dir, nil
	}
	if main, err := os.ReadFile(filepath.Join(dir, "refs", "main")); err == nil {
		if at := filepath.Join(snapshots, filepath.Base(string(bytes.TrimSpace(main)))); isDir(at) {
			return at, nil
		}
	}
	if len(all) != 1 {
		return "", fmt.Errorf("%s: %d revisions below snapshots, must be one, or refs/main must name one", dir, len(all))
	}
	return filepath.Join(snapshots, all[0].Name()), nil
}

func isDir(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.IsDir()
}

// isHub reports whether a directory with data files of a kind is a data set from a hub.
func isHub(dir, kind string) bool {
	if kind == ".parquet" || kind == ".arrow" {
		return true
	}
	for _, name := range []string{"README.md", "dataset_infos.json", "data"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// listData returns the data files in a directory by extension, sorted.
func listData(root string) (map[string][]string, error) {
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name := e.Name()
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && strings.HasPrefix(name, "."):
			return filepath.SkipDir
		case e.IsDir() || isAbout(name):
			return nil
		}
		plain := strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
		all[filepath.Ext(plain)] = append(all[filepath.Ext(plain)], path)
		return nil
	})
	return all, err
}

// isAbout reports whether a file has only metadata.
func isAbout(name string) bool {
	return slices.Contains([]string{"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "config.json"}, name) || strings.HasPrefix(name, "cache-") ||
		strings.HasPrefix(name, ".")
}

// groupTables combines the files of each table.
func groupTables(root string, files []string) (all []hubTable) {
	part := regexp.MustCompile(`[-_]\d+-of-\d+.*$|\.[a-z].*$`)
	for _, path := range files {
		name, err := filepath.Rel(root, path)
		if err != nil {
			name = path
		}
		name = filepath.Join(filepath.Dir(name), part.ReplaceAllString(filepath.Base(name), ""))
		if n := len(all); n > 0 && all[n-1].name == name {
			all[n-1].files = append(all[n-1].files, path)
			continue
		}
		all = append(all, hubTable{name, []string{path}})
	}
	return all
}

// chooseTable returns the files of the only table. If there are several tables, it returns the files of the only
// table named train.
func chooseTable(root string, all []hubTable) ([]string, error) {
	chosen := all
	if len(all) > 1 {
		chosen = nil
		for _, t := range all {
			if slices.Contains(strings.Split(filepath.ToSlash(t.name), "/"), "train") {
				chosen = append(chosen, t)
			}
		}
	}
	if len(chosen) == 1 {
		return chosen[0].files, nil
	}
	var names []string
	for _, t := range all {
		if len(names) < 12 {
			names = append(names, filepath.Join(root, t.name))
		}
	}
	return nil, fmt.Errorf("%d tables (%s), must be one, or one called train: name its file or its directory", len(all), strings.Join(names, ", "))
}

// startsWeka reports whether a file starts with a conversation in the format weka.
func startsWeka(path string) bool {
	in, err := scan.Open(path, nil)
	if err != nil {
		return false
	}
	defer in.Close()
	head := make([]byte, 1<<16)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	line, _, _ := bytes.Cut(head[:n], []byte{'\n'})
	var o scan.Object
	return o.ParseText(line) == nil && sessions.IsWeka(&o)
}

// chain reads several files as one file. Each file starts on a new line.
type chain struct {
	files []string
	in    *scan.Input // nil if the next file is not open yet
	last  byte        // last byte read from in
}

func (c *chain) Read(p []byte) (int, error) {
	for {
		if c.in == nil {
			if len(c.files) == 0 {
				return 0, io.EOF
			}
			in, err := scan.Open(c.files[0], nil)
			if err != nil {
				return 0, err
			}
			c.in, c.files, c.last = in, c.files[1:], '\n'
		}
		n, err := c.in.Read(p)
		if n > 0 {
			c.last = p[n-1]
			return n, nil
		}
		if err != io.EOF {
			if err != nil {
				err = fmt.Errorf("%s: %w", c.in.Name, err)
			}
			return 0, err
		}
		if c.last != '\n' && len(p) > 0 {
			p[0], c.last = '\n', '\n'
			return 1, nil
		}
		if err := c.Close(); err != nil {
			return 0, err
		}
	}
}

func (c *chain) Close() error {
	if c.in == nil {
		return nil
	}
	in := c.in
	c.in = nil
	return in.Close()
}
