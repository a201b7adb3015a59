package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/plan/broker"
)

// The processes of these tests are real, and so are the server and the signals
// that end them. make sweep-faults runs them in full.
var (
	fullSweep  = flag.Bool("full-sweep", false, "run sweeps of 200 cells, and measure their speed")
	smallSweep = flag.Bool("small-sweep", false, "run the same tests with 40 short cells")
)

// onRequest skips a test that starts, kills and waits for processes by the
// clock: how long that takes is up to the machine, so it must be asked for.
func onRequest(t *testing.T) {
	t.Helper()
	if !*fullSweep && !*smallSweep {
		t.Skip("skipped: only with -full-sweep (make sweep-faults) or -small-sweep")
	}
}

// Settings that make the process of a cell fail.
const (
	crashes = "666" // as --seed: it panics
	hangs   = "667" // as --seed: it never answers
)

// cellLog names a file that gets a line for each cell that is begun.
const cellLog = "REPLAY_TEST_CELL_LOG"

// cellInput is the standard input of a program; that of a process of cells is
// noted line by line, and may bring it down.
func cellInput(args []string, in io.Reader) io.Reader {
	path := os.Getenv(cellLog)
	if path == "" || len(args) < 2 || args[0] != "sweep" || args[1] != "cell" {
		return in
	}
	log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	return &watchedInput{in: in, log: log}
}

type watchedInput struct {
	in   io.Reader
	log  io.Writer
	line []byte
}

func (w *watchedInput) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.line = append(w.line, p[:n]...)
	for {
		i := bytes.IndexByte(w.line, '\n')
		if i < 0 {
			return n, err
		}
		line := w.line[:i+1]
		if _, err := w.log.Write(line); err != nil {
			panic(err)
		}
		switch {
		case bytes.Contains(line, []byte(`{"name":"seed","value":"`+crashes+`"}`)):
			panic("made to crash")
		case bytes.Contains(line, []byte(`{"name":"seed","value":"`+hangs+`"}`)):
			time.Sleep(time.Minute)
			os.Exit(1)
		}
		w.line = w.line[i+1:]
	}
}

// site is a server and the processes around it.
type site struct {
	t      *testing.T
	dir    string // of the server
	broker *broker.Broker
	url    string
	env    []string
	log    string // of the cells begun
	cache  string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), cache: t.TempDir(), log: filepath.Join(t.TempDir(), "cells")}
	s.env = append(os.Environ(), asProgram+"=1", cellLog+"="+s.log)
	s.start(0)
	t.Cleanup(func() { s.broker.Stop() })
	return s
}

// start starts the server on a port, on what an earlier one left.
func (s *site) start(port int) {
	s.t.Helper()
	var err error
	if s.broker, err = broker.Start(broker.Options{Dir: s.dir, Port: port}); err != nil {
		s.t.Fatal(err)
	}
	s.url = s.broker.URL()
}

// process is a running program.
type process struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	ended    chan error
}

// begin starts the program; it is this test binary, or another file with the
// same contents.
func (s *site) begin(program string, args ...string) *process {
	s.t.Helper()
	p := &process{cmd: exec.Command(program, args...), ended: make(chan error, 1)}
	p.cmd.Env = s.env
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = time.Second // of children that hold the pipes
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	s.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// wait is the exit code of a process.
func (s *site) wait(p *process) int {
	s.t.Helper()
	select {
	case err := <-p.ended:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		} else if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			s.t.Fatal(err)
		}
		return 0
	case <-time.After(4 * time.Minute):
		s.t.Fatalf("%v does not end: %s", p.cmd.Args[1:], &p.err)
	}
	return -1
}

// self is this test binary.
func (s *site) self() string {
	s.t.Helper()
	path, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

// sweep runs a subcommand to its end and returns what it printed.
func (s *site) sweep(code int, args ...string) (out, errs string) {
	s.t.Helper()
	p := s.begin(s.self(), append(append([]string{"sweep"}, args...), "--nats", s.url, "--lease", "1s")...)
	if got := s.wait(p); got != code {
		s.t.Fatalf("%v: exit %d, want %d: %s", args, got, code, &p.err)
	}
	return p.out.String(), p.err.String()
}

func (s *site) submit(grid ...string) (id string) {
	s.t.Helper()
	out, _ := s.sweep(0, append([]string{"submit"}, grid...)...)
	return strings.TrimSpace(out)
}

// collect is the table of a finished sweep.
func (s *site) collect(id string) string {
	s.t.Helper()
	out, _ := s.sweep(0, "collect", id, "--output", "csv")
	return out
}

// worker starts a worker process of one slot.
func (s *site) worker(args ...string) *process {
	s.t.Helper()
	return s.begin(s.self(), append([]string{"sweep", "work", "--nats", s.url, "--lease", "1s", "--jobs", "1", "--cache", s.cache}, args...)...)
}

// status are the counts of a sweep.
func (s *site) status(id string) map[string]int {
	s.t.Helper()
	out, _ := s.sweep(0, "status", id)
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+) (\d+)$`).FindAllStringSubmatch(out, -1) {
		counts[m[1]], _ = strconv.Atoi(m[2])
	}
	return counts
}

// begun are the cells that were begun, a line each.
func (s *site) begun() []string {
	s.t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[:bytes.Count(text, []byte("\n"))]
}

// cells is a grid of so many cells, each of some ms.
func cells(count, requests int) []string {
	var ratios []string
	for i := range (count + 3) / 4 {
		ratios = append(ratios, fmt.Sprintf("%.2f", 1+float64(i)/100))
	}
	return []string{
		"--set", "input-tokens=700", "--set", "output-tokens=40", "--set", "arrival-interval-ms=4",
		"--set", fmt.Sprintf("request-count=%d", requests),
		"--grid", "workers=2,3", "--grid", "router=round_robin,kv", "--grid", "speedup=" + strings.Join(ratios, ","),
	}
}

// sized is a grid for this run of the tests.
func sized() (grid []string, count int) {
	if *fullSweep {
		return cells(200, 30_000), 200
	}
	return cells(40, 10_000), 40
}

// local is the table of the grid from a single process.
func (s *site) local(grid []string) string {
	s.t.Helper()
	p := s.begin(s.self(), append([]string{"sweep", "--output", "csv"}, grid...)...)
	if code := s.wait(p); code != 0 {
		s.t.Fatalf("exit %d: %s", code, &p.err)
	}
	return p.out.String()
}

// One worker process and four give the same bytes, as does no queue at all, and
// four are faster.
func TestSweepWorkers(t *testing.T) {
	onRequest(t)
	grid, count := sized()
	cores := min(runtime.NumCPU(), 4)
	want := newSite(t).local(grid)
	if lines := strings.Count(want, "\n"); lines != count+1 {
		t.Fatalf("%d lines, want one per cell and a head", lines)
	}
	attempts := 1
	if *fullSweep {
		attempts = 3 // other people use this machine too
	}
	best := 0.0
	for range attempts {
		took := map[int]time.Duration{}
		for _, workers := range []int{1, 4} {
			s := newSite(t)
			id := s.submit(grid...)
			started := time.Now()
			var all []*process
			for range workers {
				all = append(all, s.worker("--drain"))
			}
			for _, p := range all {
				if code := s.wait(p); code != 0 {
					t.Fatalf("worker: exit %d: %s", code, &p.err)
				}
			}
			took[workers] = time.Since(started)
			if got := s.collect(id); got != want {
				t.Errorf("%d workers: another table\n%s\nthan\n%s", workers, got, want)
			}
		}
		best = max(best, took[1].Seconds()/took[4].Seconds())
		t.Logf("%d cells: %v with 1 worker, %v with 4 on %d cores", count, took[1], took[4], runtime.NumCPU())
		if best >= 0.8*float64(cores) {
			break
		}
	}
	if *fullSweep && best < 0.8*float64(cores) {
		t.Errorf("four workers are %.2f times as fast as one, want %.2f", best, 0.8*float64(cores))
	}
}

// Workers are killed all the time: every cell has one result, and none is lost.
func TestSweepKilledWorkers(t *testing.T) {
	onRequest(t)
	grid, count := sized()
	pause, least := 250*time.Millisecond, 1
	if *fullSweep {
		grid, count = cells(200, 100_000), 200 // long enough for several kills
		pause, least = 2*time.Second, 5
	}
	s := newSite(t)
	want := s.local(grid)
	id := s.submit(grid...)
	workers := []*process{s.worker(), s.worker()}
	kills, done := 0, 0
	for done < count {
		time.Sleep(pause)
		victim := workers[kills%2]
		if err := victim.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-victim.ended
		workers[kills%2] = s.worker()
		if kills++; kills > 200 {
			t.Fatalf("%v after %d kills", s.status(id), kills)
		}
		now := s.status(id)["done"]
		if now == done && !*fullSweep {
			pause *= 2 // a busy machine starts nothing in that time
		}
		done = now
	}
	if got := s.status(id); kills < least || got["done"] != count || got["dead"] != 0 || got["cells"] != count {
		t.Errorf("%v after %d kills, want %d done and at least %d kills", got, kills, count, least)
	}
	if got := s.collect(id); got != want {
		t.Errorf("another table than without kills:\n%s", got)
	}
	t.Logf("%d kills, %d cells begun for %d results", kills, len(s.begun()), count)
}

// The server is restarted in the middle: the sweep ends, and what had a result
// is not run again.
func TestSweepServerRestart(t *testing.T) {
	onRequest(t)
	grid, count := sized()
	s := newSite(t)
	want := s.local(grid)
	id := s.submit(grid...)
	workers := []*process{s.worker(), s.worker()}
	for s.status(id)["done"] < count/4 {
		time.Sleep(20 * time.Millisecond)
	}
	before, _ := s.sweep(exitIncomplete, "collect", id, "--output", "csv")
	port, err := strconv.Atoi(s.url[strings.LastIndexByte(s.url, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	mark := len(s.begun())
	s.broker.Stop()
	time.Sleep(time.Second)
	s.start(port)
	out, _ := s.sweep(0, "collect", id, "--wait", "--output", "csv")
	if out != want {
		t.Errorf("another table than without a restart:\n%s", out)
	}
	for _, p := range workers {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := s.wait(p); code != exitTerminated {
			t.Errorf("worker: exit %d: %s", code, &p.err)
		}
	}
	stored := finished(before)
	if len(stored) == 0 || len(stored) == count {
		t.Fatalf("%d of %d cells were done before the restart, want some", len(stored), count)
	}
	after := s.begun()[mark:]
	for _, cell := range stored {
		if slices.ContainsFunc(after, func(line string) bool { return begins(line, cell) }) {
			t.Errorf("%v was run again", cell)
		}
	}
	t.Logf("%d cells done before the restart, %d begun after it", len(stored), len(after))
}

// finished are the cells of a table that have a report: workers, router, speedup.
func finished(table string) (all [][]string) {
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		if fields := strings.Split(line, ","); !strings.HasSuffix(line, "not finished") {
			all = append(all, fields[1:4])
		}
	}
	return all
}

// begins says that a line of the log begins a cell.
func begins(line string, cell []string) bool {
	for i, name := range []string{"workers", "router", "speedup"} {
		if !strings.Contains(line, fmt.Sprintf(`{"name":%q,"value":%q}`, name, cell[i])) {
			return false
		}
	}
	return true
}
