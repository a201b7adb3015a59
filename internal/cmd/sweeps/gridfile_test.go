package sweeps

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

func readGridText(t *testing.T, text string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "grid.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := new(GridFlags).readGrid(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(g.Axes, g.Common), nil
}

// Axes are in the order of the file.
func TestGridFile(t *testing.T) {
	for text, want := range map[string]string{
		"grid: {workers: [1, 2]}\ntrace: [a.jsonl, b.jsonl]\nset: {block-size: 512}":   "[{workers [1 2]} {trace [a.jsonl b.jsonl]}] [{block-size 512}]",
		"trace: a.jsonl\n---\nset:\n  engine-args: {num_gpu_blocks: 5}\ngrid: {tp: 2}": `[{tp [2]}] [{trace a.jsonl} {engine-args {"num_gpu_blocks":5}}]`,
		"grid: {workers: [1, 2]}\n---\nset: {workers: 3}":                              "[] [{workers 3}]",
	} {
		if got, err := readGridText(t, text); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestGridFileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"grids: {}":                 ":1: grids: no such key of a grid, must be trace, set or grid, did you mean grid?",
		"- a":                       ":1: must be a grid, with trace, set or grid",
		"trace: a.jsonl\nset: 3":    ":2: must be flags by name",
		"set:\n  workes: 3":         ":2: workes: no such flag of a replay, did you mean workers?",
		"set:\n\n  workers: [1, 2]": ":3: workers: a list, must be one value, or the list under grid",
		"grid: {workers: []}":       ":1: workers: no values, must have at least 1",
		"grid: {workers: [[1]]}":    ":1: workers: must be a single value",
		"trace: {a: b\n":            ":1: ",
	} {
		if _, err := readGridText(t, text); err == nil || !strings.Contains(err.Error(), "grid.yaml"+want) || !cli.IsUsage(err) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
