package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/replay"
)

// Setting is a flag of a replay and its value.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Axis is a setting with its values, at least 1.
type Axis struct {
	Name   string
	Values []string
}

// Grid holds the settings of many replays: common settings, and axes. All combinations of the values of the axes are
// cells.
type Grid struct {
	Common []Setting
	Axes   []Axis
}

// Cell is one replay of a grid.
type Cell struct {
	Index    int // in grid order: the last axis runs fastest
	Settings []Setting
	Sample   int // 0: the workload itself; k: the k-th of its resamples
}

// maxCells is the maximum number of cells of a grid.
const maxCells = 10_000_000

// Check rejects grids without cells, with too many cells, or with a setting that is given twice.
func (g *Grid) Check() error {
	var seen []string
	for _, s := range g.Common {
		if slices.Contains(seen, s.Name) {
			return fmt.Errorf("%s: said twice, must be given once", s.Name)
		}
		seen = append(seen, s.Name)
	}
	cells := 1
	for _, a := range g.Axes {
		switch {
		case slices.Contains(seen, a.Name):
			return fmt.Errorf("%s: said twice, must be given once", a.Name)
		case len(a.Values) == 0:
			return fmt.Errorf("%s: no values, must be at least 1", a.Name)
		case cells > maxCells/len(a.Values):
			return fmt.Errorf("%s: more than %d cells, must be fewer", a.Name, maxCells)
		}
		cells *= len(a.Values)
		seen = append(seen, a.Name)
	}
	return nil
}

// Size returns the number of cells.
func (g *Grid) Size() int {
	n := 1
	for _, a := range g.Axes {
		n *= len(a.Values)
	}
	return n
}

// Cells returns all cells, in grid order.
func (g *Grid) Cells() []Cell {
	cells := make([]Cell, g.Size())
	for i := range cells {
		cells[i] = Cell{Index: i, Settings: append(slices.Clone(g.Common), g.axisValues(i)...)}
	}
	return cells
}

// axisValues returns the values of the axes in cell i.
func (g *Grid) axisValues(i int) []Setting {
	all := make([]Setting, len(g.Axes))
	for k, a := range slices.Backward(g.Axes) {
		all[k] = Setting{Name: a.Name, Value: a.Values[i%len(a.Values)]}
		i /= len(a.Values)
	}
	return all
}

// Of returns the value of a cell on an axis.
func (c *Cell) Of(name string) string {
	for _, s := range c.Settings {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// Task is the stored form of a cell: all inputs that its result depends on. The key of a task identifies stored
// results.
type Task struct {
	Settings []Setting `json:"settings"` // by name
	// Files are the digests of the files that settings name, by setting.
	Files   []File `json:"files,omitempty"`
	Version string `json:"version"` // of the program
	Sample  int    `json:"resample,omitempty"`
}

// File is a file that a cell reads.
type File struct {
	Setting string `json:"setting"` // that names it
	SHA256  string `json:"sha256"`
}

// NewTask returns the task of a cell. digest returns the digest of the file that a setting names, "" if it names
// none.
func NewTask(c *Cell, version string, digest func(Setting) (string, error)) (Task, error) {
	t := Task{Settings: slices.Clone(c.Settings), Version: version, Sample: c.Sample}
	stable.Sort(t.Settings, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range t.Settings {
		hash, err := digest(s)
		if err != nil {
			return t, err
		}
		if hash != "" {
			t.Files = append(t.Files, File{Setting: s.Name, SHA256: hash})
			t.Settings[i].Value = "" // what is in the file counts, not where it lies
			if strings.HasPrefix(s.Value, "@") {
				t.Settings[i].Value = "@"
			}
		}
	}
	return t, nil
}

// Key returns the SHA-256 of the task's JSON, in hexadecimal.
func (t *Task) Key() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("task: %v", err)) // strings can always be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// HashFile returns the SHA-256 of a file, in hexadecimal.
func HashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// WorkloadKey returns a key of the workload of s. Specs with equal keys have the same workload.
func WorkloadKey(s *replay.Spec) string {
	trace := "none"
	if s.Trace != nil {
		trace = fmt.Sprintf("%+v", *s.Trace)
	}
	// The blocks of a synthetic workload have the block size of the first pool.
	return fmt.Sprintf("%s %+v %v %d %v %d %+v", trace, s.Synthetic, s.Mode, s.Entry().Engine.BlockTokens, s.Compat, s.Seed, s.Classes)
}
