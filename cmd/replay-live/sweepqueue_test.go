package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/internal/poll"
)

// drain lets a worker empty the queue.
func (s *site) drain(args ...string) (errs string) {
	s.t.Helper()
	p := s.worker(append(args, "--drain")...)
	if code := s.wait(p); code != 0 {
		s.t.Fatalf("worker: exit %d: %s", code, &p.err)
	}
	return p.err.String()
}

// A sweep that is submitted again runs nothing; with another value of an axis,
// it runs the cells of that value.
func TestSweepResubmitted(t *testing.T) {
	onRequest(t)
	s := newSite(t)
	grid := func(speedups string) []string {
		return []string{
			"--set", "input-tokens=700", "--set", "output-tokens=4", "--set", "request-count=30",
			"--grid", "speedup=" + speedups, "--grid", "workers=1,2,3",
		}
	}
	id := s.submit(grid("1,2")...)
	s.drain()
	first := s.collect(id)
	if n := len(s.begun()); n != 6 {
		t.Fatalf("%d cells begun, want 6", n)
	}
	if again := s.submit(grid("1,2")...); again != id {
		t.Errorf("id is %s, want %s as before", again, id)
	}
	s.drain()
	if n := len(s.begun()); n != 6 || s.collect(id) != first {
		t.Errorf("%d cells begun after the second time, want none more and the same table", n-6)
	}
	other := s.submit(grid("1,3")...)
	s.drain()
	if n := len(s.begun()); n != 9 {
		t.Errorf("%d cells begun for another value, want 3", n-6)
	}
	for _, line := range s.begun()[6:] {
		if !strings.Contains(line, `{"name":"speedup","value":"3"}`) {
			t.Errorf("begun again: %s", line)
		}
	}
	if table := s.collect(other); strings.Count(table, "\n") != 7 {
		t.Errorf("table:\n%s", table)
	}
}

// Cells that crash, take too much memory or too much time, or cannot be run are
// given up after as many tries as make sense; the others are done.
func TestSweepGivesUp(t *testing.T) {
	onRequest(t)
	s := newSite(t)
	common := []string{"--set", "input-tokens=700", "--set", "output-tokens=4"}
	id := s.submit(append(common, "--set", "request-count=20", "--grid", "seed=1,"+crashes+","+hangs+",2", "--grid", "router=round_robin,kv")...)
	s.drain("--timeout", "1s")
	large := s.submit(append(common, "--grid", "request-count=20,30000000")...)
	s.drain("--memory-limit-mb", "120")
	out, _ := s.sweep(0, "status", id)
	second, _ := s.sweep(0, "status", large)
	for _, want := range []string{
		"cells 8\n", "done 2\n", "dead 6\n", "pending 0\n",
		"cell 2 dead after tries: 5: crashed: exit status 2: panic: made to crash\n",
		"cell 4 dead after tries: 1: took longer than 1s\n",
		"cell 1 dead after tries: 1: --router=kv: want at least 2 workers",
		"cells 2\n", "done 1\n", "cell 1 dead after tries: 5: takes more than 120 MB of memory\n",
	} {
		if !strings.Contains(out+second, want) {
			t.Errorf("status has no %q:\n%s%s", want, out, second)
		}
	}
	table, errs := s.sweep(cli.ExitIncomplete, "collect", id, "--output", "csv")
	if !strings.Contains(errs, "6 of 8 cells have no report") || strings.Count(table, "\n") != 9 || strings.Count(table, "made to crash") != 2 {
		t.Errorf("%s%s", table, errs)
	}
	// Handed in again, they get new tries.
	before := len(s.begun())
	s.submit("--set", "input-tokens=700", "--set", "output-tokens=4", "--set", "request-count=20", "--grid", "seed="+crashes)
	s.drain()
	if n := len(s.begun()) - before; n != 5 {
		t.Errorf("%d new tries, want 5", n)
	}
}

// A trace that was damaged in the cache is noticed and fetched again.
func TestSweepDamagedCache(t *testing.T) {
	onRequest(t)
	s := newSite(t)
	trace, err := filepath.Abs("../replay/testdata/files/requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	grid := func(speedups string) []string {
		return []string{"--trace", trace, "--set", "trace-block-size=64", "--grid", "speedup=" + speedups}
	}
	id := s.submit(grid("1,2")...)
	if errs := s.drain(); errs != "" {
		t.Errorf("worker says %q", errs)
	}
	first := s.collect(id)
	cached, err := filepath.Glob(filepath.Join(s.cache, "*"))
	if err != nil || len(cached) != 1 {
		t.Fatalf("%v; %v in the cache, want one file", err, cached)
	}
	text, err := os.ReadFile(cached[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := []byte(strings.Replace(string(text), `"input_length":128`, `"input_length":127`, 1))
	if err := os.WriteFile(cached[0], damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	other := s.submit(grid("1,4")...)
	if errs := s.drain(); !strings.Contains(errs, "digest is ") || !strings.Contains(errs, "fetched again") {
		t.Errorf("worker says %q, want that the file is damaged", errs)
	}
	if now, err := os.ReadFile(cached[0]); err != nil || string(now) != string(text) {
		t.Errorf("%v; the file in the cache is still damaged", err)
	}
	want := s.local(grid("1,4"))
	if got := s.collect(other); got != want || got == first {
		t.Errorf("table\n%s\nwant\n%s", got, want)
	}
}

// Two programs of different versions work on one queue: cells go to the right
// one only.
func TestSweepVersions(t *testing.T) {
	onRequest(t)
	s := newSite(t)
	text, err := os.ReadFile(s.self())
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, append(text, "another build"...), 0o755); err != nil {
		t.Fatal(err)
	}
	wrong := s.begin(other, "sweep", "work", "--nats", s.url, "--lease", "1s", "--jobs", "2", "--cache", s.cache)
	id := s.submit("--set", "input-tokens=700", "--set", "output-tokens=4", "--set", "request-count=30", "--grid", "workers=1,2,3,4,5,6,7,8")
	time.Sleep(2500 * time.Millisecond)
	if n, st := len(s.begun()), s.status(id); n != 0 || st["done"] != 0 || st["dead"] != 0 {
		t.Errorf("the wrong program began %d cells: %v", n, st)
	}
	s.drain()
	if n, st := len(s.begun()), s.status(id); n != 8 || st["done"] != 8 {
		t.Errorf("the right program began %d cells: %v; want 8", n, st)
	}
	mine := s.submit("--set", "input-tokens=700", "--set", "output-tokens=4", "--set", "request-count=31", "--grid", "workers=1,2")
	theirs := s.begin(other, "sweep", "submit", "--nats", s.url, "--lease", "1s", "--set", "input-tokens=700", "--set", "output-tokens=4",
		"--set", "request-count=31", "--grid", "workers=1,2")
	if code := s.wait(theirs); code != 0 || strings.TrimSpace(theirs.out.String()) == mine {
		t.Errorf("exit %d: %s; want another sweep than %s", code, &theirs.err, mine)
	}
	s.drain()
	if st := s.status(mine); st["done"] != 2 {
		t.Errorf("%v, want 2 done", st)
	}
	if err := wrong.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(wrong); code != cli.ExitTerminated {
		t.Errorf("exit %d: %s", code, &wrong.err)
	}
}

// A worker that is told to end gives its cell back at once, not when its lease
// runs out.
func TestSweepInterrupted(t *testing.T) {
	onRequest(t)
	s := newSite(t)
	s.submit("--set", "input-tokens=700", "--set", "output-tokens=4", "--set", "request-count=20", "--set", "seed="+hangs)
	p := s.begin(s.self(), "sweep", "work", "--nats", s.url, "--lease", "5m", "--jobs", "1", "--cache", s.cache)
	poll.Until(t, "the cell is begun", func() bool { return len(s.begun()) > 0 })
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(p); code != cli.ExitInterrupted {
		t.Errorf("exit %d: %s", code, &p.err)
	}
	s.begin(s.self(), "sweep", "work", "--nats", s.url, "--lease", "5m", "--jobs", "1", "--cache", s.cache)
	poll.Until(t, "the cell is begun again", func() bool { return len(s.begun()) == 2 })
}

// A sweep run keeps queue and results where it is told, so that the next one
// has little to do.
func TestSweepRunGoesOn(t *testing.T) {
	onRequest(t)
	s := newSite(t)
	grid := []string{
		"sweep", "run", "--set", "input-tokens=700", "--set", "output-tokens=4", "--set", "request-count=30",
		"--grid", "workers=1,2,3", "--data", t.TempDir(), "--cache", s.cache, "--output", "csv",
	}
	var tables []string
	for range 2 {
		p := s.begin(s.self(), grid...)
		if code := s.wait(p); code != 0 {
			t.Fatalf("exit %d: %s", code, &p.err)
		}
		tables = append(tables, p.out.String())
	}
	if n := len(s.begun()); n != 3 || tables[0] != tables[1] || strings.Count(tables[0], "\n") != 4 {
		t.Errorf("%d cells begun in two runs, want 3; tables:\n%s\n%s", n, tables[0], tables[1])
	}
}

// On a queue cells are replayed on resamples, too, with the intervals and verdicts of a
// sweep in one process; a timing profile and a deployment reach the workers with all that
// they say.
func TestSweepRepeatsOnQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: starts processes; go test ./cmd/replay-live, without -short, runs it")
	}
	s := newSite(t)
	files, err := filepath.Abs("../replay/testdata/files")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for _, grid := range [][]string{
		{"--trace", "requests.jsonl", "--set", "trace-block-size=64", "--set", "timing-profile=fitted.json", "--grid", "max-num-seqs=1,2", "--repeat", "3"},
		{"--trace", "requests.jsonl", "--set", "trace-block-size=64", "--deployment", "fitted.yaml", "--grid", "workers=1,2", "--repeat", "2"},
	} {
		t.Chdir(files)
		want := s.local(grid)
		if !strings.Contains(want, "resampled_p99_ttft_ms_verdict") || strings.Count(want, "\n") != 3 {
			t.Fatalf("in one process %v prints\n%s", grid, want)
		}
		id := s.submit(grid...)
		t.Chdir(elsewhere)
		if errs := s.drain(); errs != "" {
			t.Errorf("worker says %q", errs)
		}
		t.Chdir(files)
		if got := s.collect(id); got != want {
			t.Errorf("%v: a queue prints\n%s\nand one process\n%s", grid, got, want)
		}
		p := s.begin(s.self(), append([]string{"sweep", "run", "--cache", s.cache, "--output", "csv"}, grid...)...)
		if code := s.wait(p); code != 0 || p.out.String() != want {
			t.Errorf("%v: sweep run: exit %d: %s\n%s\nwant\n%s", grid, code, &p.err, &p.out, want)
		}
	}
	if plain := s.submit("--trace", "requests.jsonl", "--set", "trace-block-size=64", "--grid", "workers=1,2"); s.status(plain)["cells"] != 2 {
		t.Errorf("%v cells without --repeat, want 2", s.status(plain)["cells"])
	}
	if _, errs := s.sweep(cli.ExitUsage, "submit", "--set", "request-count=3", "--repeat", "1"); !strings.Contains(errs, "--repeat=1: want 2 to 10000, or 0") {
		t.Errorf("--repeat 1: %s", errs)
	}
}
