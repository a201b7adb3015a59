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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/drt/stack"
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
	broker *stack.NATS
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
	if s.broker, err = stack.StartNATS(s.t.Context(), stack.NATSOptions{Dir: s.dir, Port: port}); err != nil {
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
