package queue

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/plan"
)

// What this test binary is when it is started again: the process of cells, or a
// worker.
const (
	asCells  = "QUEUE_TEST_CELLS"  // names the file that gets a line per cell begun
	asWorker = "QUEUE_TEST_WORKER" // is the server's URL
	cacheDir = "QUEUE_TEST_CACHE"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "cells":
		os.Exit(runCells(os.Stdin, os.Stdout))
	case os.Getenv(asWorker) != "":
		os.Exit(runWorker(os.Getenv(asWorker)))
	}
	os.Exit(m.Run())
}

// runCells answers as the settings of cells say.
func runCells(in io.Reader, out io.Writer) int {
	log, err := os.OpenFile(os.Getenv(asCells), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 3
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var r Request
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			return 3
		}
		cell := plan.Cell{Settings: r.Settings}
		if _, err := fmt.Fprintln(log, cell.Of("do"), cell.Of("n"), os.Args[2]); err != nil {
			return 3
		}
		reply := Reply{Report: rawJSON(fmt.Sprintf(`{"n":%q}`, cell.Of("n")))}
		switch cell.Of("do") {
		case "crash":
			panic("made to crash")
		case "refuse":
			reply = Reply{Refused: "made to be refused"}
		case "memory":
			reply = Reply{Memory: "takes more than 1 MB of memory"}
		case "hang":
			_, _ = io.Copy(io.Discard, in) // until the worker is gone
			return 3
		case "read":
			text, err := os.ReadFile(cell.Of("trace"))
			if err != nil {
				return 3
			}
			reply.Report = rawJSON(fmt.Sprintf(`{"text":%q}`, text))
		}
		if json.NewEncoder(out).Encode(reply) != nil {
			return 3
		}
	}
	return 0
}

// runWorker works until it is killed.
func runWorker(url string) int {
	ctx := context.Background()
	q, err := Open(ctx, url, time.Second)
	if err != nil {
		return 3
	}
	cache, err := NewCache(os.Getenv(cacheDir), 1e9)
	if err != nil {
		return 3
	}
	w := workerOf(q, cache, "v1")
	if w.Run(ctx) != nil {
		return 3
	}
	return 0
}

func workerOf(q *Queue, cache *Cache, version string) *Worker {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &Worker{
		Queue: q, Version: version, Slots: 2, Cache: cache, Drain: true, Notify: func(string) {},
		Program: Program{Args: []string{self, "cells", version}, Timeout: 10 * time.Minute},
	}
}

// site is a server, a connection to it, and what was begun.
type site struct {
	t     *testing.T
	ctx   context.Context
	url   string
	queue *Queue
	cache *Cache
	log   string
}

func newSite(t *testing.T) *site {
	t.Helper()
	b, err := stack.StartNATS(t.Context(), stack.NATSOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	s := &site{t: t, ctx: t.Context(), url: b.URL(), log: filepath.Join(t.TempDir(), "begun")}
	if s.queue, err = Open(s.ctx, s.url, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.queue.Close)
	if s.cache, err = NewCache(t.TempDir(), 1e9); err != nil {
		t.Fatal(err)
	}
	t.Setenv(asCells, s.log)
	return s
}

// submit hands in a grid of cells that do so.
func (s *site) submit(version string, axes ...plan.Axis) (*Manifest, *Submitted) {
	s.t.Helper()
	g := &plan.Grid{Axes: axes}
	var tasks []plan.Task
	for _, c := range g.Cells() {
		task, err := plan.NewTask(&c, version, func(set plan.Setting) (string, error) {
			if set.Name != "trace" {
				return "", nil
			}
			return plan.HashFile(set.Value)
		})
		if err != nil {
			s.t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	done, err := s.queue.Submit(s.ctx, g, tasks, func(string) string { return axes[0].Values[0] })
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := s.queue.Manifest(s.ctx, done.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return m, done
}

// work empties the queue.
func (s *site) work(w *Worker) {
	s.t.Helper()
	if err := w.Run(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) begun() []string {
	s.t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return strings.Split(string(text), "\n")[:strings.Count(string(text), "\n")]
}

func (s *site) outcomes(m *Manifest) []plan.Outcome {
	s.t.Helper()
	all, err := s.queue.Outcomes(s.ctx, m)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func doing(what string) plan.Axis { return plan.Axis{Name: "do", Values: []string{what}} }

func numbers(from, to int) plan.Axis {
	a := plan.Axis{Name: "n"}
	for n := from; n < to; n++ {
		a.Values = append(a.Values, strconv.Itoa(n))
	}
	return a
}

// Cells are run once each; handed in again, only those that are new.
func TestSubmitAgain(t *testing.T) {
	s := newSite(t)
	m, done := s.submit("v1", doing("answer"), numbers(0, 9))
	if done.Cells != 9 || done.Queued != 9 || done.Known != 0 {
		t.Errorf("%+v, want 9 cells queued", done)
	}
	s.work(workerOf(s.queue, s.cache, "v1"))
	for i, o := range s.outcomes(m) {
		if want := fmt.Sprintf(`{"n":"%d"}`, i); string(o.Report) != want {
			t.Errorf("cell %d: %s, want %s", i, o.Report, want)
		}
	}
	if n := len(s.begun()); n != 9 {
		t.Errorf("%d cells begun, want 9", n)
	}
	if _, again := s.submit("v1", doing("answer"), numbers(0, 9)); again.Queued != 0 || again.Known != 9 || again.ID != done.ID {
		t.Errorf("%+v, want the same sweep and all cells known", again)
	}
	m, done = s.submit("v1", doing("answer"), numbers(6, 12))
	s.work(workerOf(s.queue, s.cache, "v1"))
	if n := len(s.begun()); done.Queued != 3 || n != 12 {
		t.Errorf("%+v and %d cells begun in all, want 3 queued and 12", done, n)
	}
	st, err := s.queue.Status(s.ctx, m)
	if err != nil || st.Done != 6 || st.Dead != 0 || st.Running != 0 || st.Pending != 0 || st.ETA < 0 {
		t.Errorf("%v, %+v; want 6 done", err, st)
	}
}

// Cells that take their process down are tried five times, those that are
// refused or take too long once. The others are done.
func TestGivenUp(t *testing.T) {
	s := newSite(t)
	m, _ := s.submit("v1", plan.Axis{Name: "do", Values: []string{"crash", "refuse", "memory", "answer"}})
	s.work(workerOf(s.queue, s.cache, "v1"))
	slow, _ := s.submit("v1", doing("hang"))
	w := workerOf(s.queue, s.cache, "v1")
	w.Program.Timeout = 50 * time.Millisecond
	s.work(w)
	st, err := s.queue.Status(s.ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	late, err := s.queue.Status(s.ctx, slow)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range append(st.GivenUp, late.GivenUp...) {
		got = append(got, fmt.Sprintf("%d after %d: %s", d.Cell, d.Tries, d.Reason))
	}
	want := []string{
		"0 after 5: crashed: exit status 2: panic: made to crash", "1 after 1: made to be refused",
		"2 after 5: takes more than 1 MB of memory", "0 after 1: took longer than 50ms",
	}
	if !slices.Equal(got, want) || st.Done != 1 {
		t.Errorf("%q and %d done, want %q and 1", got, st.Done, want)
	}
	// Handed in again, they are tried again.
	before := len(s.begun())
	if _, again := s.submit("v1", doing("crash")); again.Queued != 1 {
		t.Errorf("%+v, want it queued again", again)
	}
	s.work(workerOf(s.queue, s.cache, "v1"))
	if n := len(s.begun()) - before; n != 5 {
		t.Errorf("%d new tries, want 5", n)
	}
}

// A worker is killed in the middle of its cells: they go to another.
func TestKilledWorker(t *testing.T) {
	s := newSite(t)
	m, _ := s.submit("v1", doing("hang"), numbers(0, 2))
	cmd := exec.Command(workerOf(nil, nil, "v1").Program.Args[0])
	cmd.Env = append(os.Environ(), asWorker+"="+s.url, cacheDir+"="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "both cells are begun", func() bool { return len(s.begun()) == 2 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	w := workerOf(s.queue, s.cache, "v1")
	w.Program.Timeout = 50 * time.Millisecond // so that they end this time
	s.work(w)
	for i, o := range s.outcomes(m) {
		if o.Reason != "took longer than 50ms" {
			t.Errorf("cell %d: %+v, want that the other worker had it", i, o)
		}
	}
}

// Workers of two versions share a queue: each runs only its own cells.
func TestVersions(t *testing.T) {
	s := newSite(t)
	var sweeps []*Manifest
	for _, version := range []string{"v1", "v2"} {
		m, _ := s.submit(version, doing("answer"), numbers(0, 4))
		sweeps = append(sweeps, m)
	}
	ended := make(chan error, 1)
	go func() { ended <- workerOf(s.queue, s.cache, "v2").Run(s.ctx) }()
	s.work(workerOf(s.queue, s.cache, "v1"))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, line := range s.begun() {
		counts[line[strings.LastIndexByte(line, ' ')+1:]]++
	}
	if counts["v1"] != 4 || counts["v2"] != 4 || sweeps[0].ID == sweeps[1].ID {
		t.Errorf("%v, want 4 cells of each version, in sweeps of their own", counts)
	}
}

// Two results of one cell may differ in how long they took and in nothing else;
// otherwise the cell is given up, and says so.
func TestNondeterministic(t *testing.T) {
	s := newSite(t)
	m, _ := s.submit("v1", doing("answer"), numbers(0, 2))
	reports := [][2]string{{`{"n":1,"wall_time_ms":5}`, `{"n":1,"wall_time_ms":7}`}, {`{"n":1,"wall_time_ms":5}`, `{"n":2,"wall_time_ms":5}`}}
	for i, both := range reports {
		for k, text := range both {
			if err := s.queue.storeResult(s.ctx, m.Keys[i], &Result{Report: rawJSON(text), Host: fmt.Sprintf("host%d", k)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := s.outcomes(m)
	if all[0].Reason != "" || string(all[0].Report) != reports[0][0] {
		t.Errorf("%+v, want the first report", all[0])
	}
	if want := "nondeterministic: host0 and host1 got different reports"; all[1].Reason != want || all[1].Report != nil {
		t.Errorf("%+v, want no report and %q", all[1], want)
	}
	if st, err := s.queue.Status(s.ctx, m); err != nil || st.Done != 1 || st.Dead != 1 {
		t.Errorf("%v, %+v; want 1 done and 1 dead", err, st)
	}
}

// Files come from the server; one that was damaged on the way to a worker's
// cells is fetched again.
func TestDamagedFile(t *testing.T) {
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte("rows"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.submit("v1", plan.Axis{Name: "trace", Values: []string{path}}, doing("read"), numbers(0, 2))
	s.work(workerOf(s.queue, s.cache, "v1"))
	digest, err := plan.HashFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cached := filepath.Join(s.cache.dir, digest)
	if err := os.WriteFile(cached, []byte("rots"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, _ := s.submit("v1", plan.Axis{Name: "trace", Values: []string{path}}, doing("read"), numbers(2, 4))
	fresh, err := NewCache(s.cache.dir, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	w := workerOf(s.queue, fresh, "v1")
	w.Slots, w.Notify = 1, func(text string) { told += text }
	s.work(w)
	for _, o := range s.outcomes(m) {
		if string(o.Report) != `{"text":"rows"}` {
			t.Errorf("%+v, want what the file held when it was handed in", o)
		}
	}
	if !strings.Contains(told, "fetched again") {
		t.Errorf("told %q, want that the file was damaged", told)
	}
}
