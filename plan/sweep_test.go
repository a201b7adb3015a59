package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func grid() *Grid {
	return &Grid{
		Common: []Setting{{"block-size", "512"}},
		Axes:   []Axis{{"router", []string{"round_robin", "kv"}}, {"workers", []string{"1", "2", "3"}}},
	}
}

func TestGrid(t *testing.T) {
	g := grid()
	if err := g.Check(); err != nil || g.Size() != 6 {
		t.Fatalf("%v, %d cells", err, g.Size())
	}
	var order []string
	for _, c := range g.Cells() {
		order = append(order, c.Of("router")+c.Of("workers")+c.Of("block-size"))
	}
	if got := strings.Join(order, " "); got != "round_robin1512 round_robin2512 round_robin3512 kv1512 kv2512 kv3512" {
		t.Errorf("order is %s", got)
	}
	for want, bad := range map[string]Grid{
		"workers: no values":                   {Axes: []Axis{{"workers", nil}}},
		"workers: said twice":                  {Common: []Setting{{"workers", "1"}}, Axes: []Axis{{"workers", []string{"2"}}}},
		"more than 10000000 cells":             {Axes: []Axis{{"a", make([]string, 10000)}, {"b", make([]string, 10000)}}},
		"seed: said twice, must be given once": {Axes: []Axis{{"seed", []string{"2"}}, {"seed", []string{"2"}}}},
	} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The key of a task depends only on inputs that the result depends on.
func TestTaskKey(t *testing.T) {
	digest := func(content string) func(Setting) (string, error) {
		return func(s Setting) (string, error) {
			if s.Name == "trace" || strings.HasPrefix(s.Value, "@") {
				return content, nil
			}
			return "", nil
		}
	}
	key := func(version, content string, settings ...Setting) string {
		task, err := NewTask(&Cell{Index: len(settings), Settings: settings}, version, digest(content))
		if err != nil {
			t.Fatal(err)
		}
		return task.Key()
	}
	trace, workers := Setting{"trace", "a.jsonl"}, Setting{"workers", "2"}
	first := key("v1", "x", trace, workers)
	for name, other := range map[string]string{
		"order": key("v1", "x", workers, trace), "place of the file": key("v1", "x", Setting{"trace", "elsewhere/b.jsonl"}, workers),
	} {
		if other != first {
			t.Errorf("%s changes the key", name)
		}
	}
	for name, other := range map[string]string{
		"version": key("v2", "x", trace, workers), "content": key("v1", "y", trace, workers),
		"value": key("v1", "x", trace, Setting{"workers", "3"}), "setting": key("v1", "x", trace, workers, Setting{"seed", "1"}),
	} {
		if other == first {
			t.Errorf("%s does not change the key", name)
		}
	}
}

// sweepOf returns a sweep in which cells with kv fail.
func sweepOf(t *testing.T, journal string, ran *atomic.Int64) (*Sweep, *Grid) {
	t.Helper()
	g := grid()
	s := &Sweep{Cells: g.Cells(), Cores: 3, Run: func(_ context.Context, c *Cell) (json.RawMessage, error) {
		ran.Add(1)
		if c.Of("router") == "kv" && c.Of("workers") == "1" {
			return nil, errors.New("must be at least 2 workers")
		}
		return json.RawMessage(fmt.Sprintf(`{"duration_ms":%d.5,"wall_time_ms":%d}`, c.Index, ran.Load())), nil
	}}
	for i := range s.Cells {
		task, err := NewTask(&s.Cells[i], "v1", func(Setting) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		s.Keys = append(s.Keys, task.Key())
	}
	var err error
	if s.Journal, err = OpenJournal(journal); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Journal.Close() })
	return s, g
}

// An interrupted sweep continues, even in the middle of a line, and repeats failed cells.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "done.jsonl")
	var ran atomic.Int64
	s, g := sweepOf(t, path, &ran)
	outcomes, n, err := s.Do(t.Context())
	if err != nil || n != 6 || ran.Load() != 6 {
		t.Fatalf("%v after %d cells", err, n)
	}
	first := csvOf(t, g, outcomes)
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte{'\n'}) != 5 {
		t.Fatalf("%v; journal:\n%s", err, text)
	}
	if err := os.WriteFile(path, text[:len(text)-20], 0o644); err != nil {
		t.Fatal(err)
	}
	s, g = sweepOf(t, path, &ran)
	if outcomes, n, err = s.Do(t.Context()); err != nil || n != 2 {
		t.Errorf("%v; %d cells run, want the one cut off and the one that failed", err, n)
	}
	if again := csvOf(t, g, outcomes); again != first {
		t.Errorf("another table:\n%s\nthan\n%s", again, first)
	}
	if err := os.WriteFile(path, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(path); err == nil || !strings.Contains(err.Error(), "done.jsonl:1: not the outcome of a cell") {
		t.Errorf("%v, want that it is no journal", err)
	}
}

func csvOf(t *testing.T, g *Grid, outcomes []Outcome) string {
	t.Helper()
	results, err := NewResults(g, outcomes, false)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := results.Table().WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTable(t *testing.T) {
	var ran atomic.Int64
	s, g := sweepOf(t, filepath.Join(t.TempDir(), "j"), &ran)
	outcomes, _, err := s.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := `cell,router,workers,duration_ms,reason
0,round_robin,1,0.5,
1,round_robin,2,1.5,
2,round_robin,3,2.5,
3,kv,1,,must be at least 2 workers
4,kv,2,4.5,
5,kv,3,5.5,
`
	if got := csvOf(t, g, outcomes); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	results, err := NewResults(g, outcomes, true)
	if err != nil || results.Incomplete() != 1 || len(results.Keys) != 2 {
		t.Fatalf("%v; %d without a report, keys %v", err, results.Incomplete(), results.Keys)
	}
	var b bytes.Buffer
	if err := results.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Cell     int
		Settings map[string]string
		Report   map[string]float64
		Reason   string
	}
	if err := json.Unmarshal(b.Bytes(), &rows); err != nil || len(rows) != 6 || rows[4].Report["duration_ms"] != 4.5 ||
		rows[4].Settings["block-size"] != "512" || rows[3].Reason == "" {
		t.Errorf("%v: %s", err, &b)
	}
	b.Reset()
	if err := results.WriteText(&b); err != nil || strings.Count(b.String(), "\n") != 7 || !strings.Contains(b.String(), "must be at least 2 workers") {
		t.Errorf("%v:\n%s", err, &b)
	}
}
