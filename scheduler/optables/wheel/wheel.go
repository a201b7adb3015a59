// Package wheel reads the operator times measured by NVIDIA in aiconfigurator-core, from a wheel, an unpacked wheel,
// or a directory with the same layout. A table is a Parquet file below data/GPU/FAMILY/ENGINE/RELEASE.
//
// Read wheel.go, then versions.go, system.go.
package wheel

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/internal/parquetfile"
)

// Wheel is an open directory of tables.
type Wheel struct {
	files    fs.FS // the directory systems
	versions versionFile
	close    func() error
}

// Open opens a .whl file or a directory. The directory must contain query_versions.yaml or data, either directly, in
// systems, or in aiconfigurator_core/systems.
func Open(name string) (*Wheel, error) {
	info, err := file.Stat(name)
	if err != nil {
		return nil, err
	}
	files, end := os.DirFS(name), func() error { return nil }
	if !info.IsDir() {
		z, err := zip.OpenReader(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: must be a directory or a wheel", name, err)
		}
		files, end = z, z.Close
	}
	for _, below := range []string{".", "systems", "aiconfigurator_core/systems"} {
		sub, err := fs.Sub(files, below)
		if err != nil {
			continue
		}
		if info, err := fs.Stat(sub, "data"); err != nil || !info.IsDir() {
			continue
		}
		w := &Wheel{files: sub, close: end}
		return w, w.readVersions()
	}
	return nil, errors.Join(fmt.Errorf("%s: no directory systems/data: must be an unpacked wheel of aiconfigurator-core", name), end())
}

// Close closes the wheel.
func (w *Wheel) Close() error { return w.close() }

// Release returns the release of the package, from the name of its metadata directory, or "" if it is unknown.
func Release(name string) string {
	base := path.Base(strings.TrimRight(name, "/"))
	if rest, ok := strings.CutPrefix(base, "aiconfigurator_core-"); ok {
		release, _, _ := strings.Cut(rest, "-")
		return release
	}
	found, _ := fs.Glob(os.DirFS(name), "aiconfigurator_core-*.dist-info")
	if len(found) == 0 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(found[0], "aiconfigurator_core-"), ".dist-info")
}

func (w *Wheel) has(name string) bool {
	_, err := fs.Stat(w.files, name)
	return err == nil
}

// Find returns the path and the release of a table of an engine on a system. Find prefers the engine's current
// release, then the newest release before it. The path is "" if there is no such table.
func (w *Wheel) Find(system, family, engine, table string) (name, release string) {
	dir := path.Join("data", system, family, engine)
	current := w.versions.current(system, engine)
	for _, r := range w.releases(dir) {
		if current != "" && compareVersions(r, current) > 0 {
			continue
		}
		if file := path.Join(dir, r, table); w.has(file) {
			return file, r
		}
	}
	return "", ""
}

// FindCollectives returns the path of the table of collectives of a system for the given release of NCCL, or else for
// the newest.
func (w *Wheel) FindCollectives(system, release string) (name, found string) {
	dir := path.Join("data", system, "comm", "nccl")
	all := w.releases(dir)
	if slices.Contains(all, release) {
		all = []string{release}
	}
	for _, r := range all {
		if file := path.Join(dir, r, "nccl_perf.parquet"); w.has(file) {
			return file, r
		}
	}
	return "", ""
}

// releases returns the releases in a directory, newest first.
func (w *Wheel) releases(dir string) []string {
	entries, err := fs.ReadDir(w.files, dir)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, e.Name())
		}
	}
	slices.SortFunc(all, func(a, b string) int { return compareVersions(b, a) })
	return all
}

// Table reads the metadata of the table at a path from Find.
func (w *Wheel) Table(name string) (*parquetfile.File, error) {
	text, err := fs.ReadFile(w.files, name)
	if err != nil {
		return nil, err
	}
	t, err := parquetfile.Open(bytes.NewReader(text), int64(len(text)))
	if err == nil && t.Rows() > maxRows {
		err = fmt.Errorf("%d rows, must be at most %d", t.Rows(), maxRows)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// maxRows limits the number of rows of a table.
const maxRows = 4 << 20

// readYAML parses a YAML file into a value.
func (w *Wheel) readYAML(name string, into any) error {
	text, err := fs.ReadFile(w.files, name)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
