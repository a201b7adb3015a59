package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/kvevents"
)

var fullCluster = flag.Bool("full-cluster", false, "run clusters of processes that are killed, paused and cut off, and measure them")

// clusterRequest skips a test that kills processes and measures times, unless -full-cluster is set.
func clusterRequest(t *testing.T) {
	t.Helper()
	if !*fullCluster {
		t.Skip("skipped: only with -full-cluster (make cluster-faults cluster-soak cluster-accuracy)")
	}
}

// clusterLimit is the timeout of a test with processes.
const clusterLimit = 2 * time.Minute

// compound is etcd, NATS and the processes that use them.
type compound struct {
	t       *testing.T
	servers *stack.Stack
	env     []string // added to the environment of the processes
}

func newCompound(t *testing.T) *compound {
	t.Helper()
	ctx, release := context.WithTimeout(context.Background(), clusterLimit)
	defer release()
	servers, err := stack.Start(ctx, stack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &compound{t: t, servers: servers}
}

// flags returns the flags with the addresses of etcd and NATS.
func (c *compound) flags() []string {
	if c.servers == nil { // the addresses are in the environment
		return nil
	}
	return []string{"--etcd", c.servers.EtcdURL(), "--nats", c.servers.NATSURL()}
}

// member is a process of a compound, with the addresses that it printed.
type member struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Closer
	err  transcript
	done chan struct{}

	Instance, System, HTTP string
	KVEvents               string            `json:"kv_events"`
	KVReplay               string            `json:"kv_replay"`
	Ranks                  []kvevents.Source `json:"kv_ranks"`
}

// transcript is the output of a process so far. transcript is safe for concurrent use.
type transcript struct {
	mu   sync.Mutex
	text []byte
}

func (b *transcript) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *transcript) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// start starts a program and waits for the line of JSON that it prints when it serves. The program ends with the
// test.
func (c *compound) start(args ...string) *member {
	c.t.Helper()
	m := &member{t: c.t, done: make(chan struct{})}
	m.cmd = exec.Command(os.Args[0], append(args, append(c.flags(), "--until-eof")...)...)
	m.cmd.Env, m.cmd.Stderr = append(append(os.Environ(), asProgram+"=1"), c.env...), &m.err
	var err error
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { _ = m.cmd.Wait(); close(m.done) }()
	c.t.Cleanup(m.end)
	if err != nil || json.Unmarshal([]byte(line), m) != nil {
		m.kill()
		c.t.Fatalf("%v: said %q, %v: %s", args, line, err, &m.err)
	}
	return m
}

// worker starts a worker with metrics.
func (c *compound) worker(args ...string) *member {
	c.t.Helper()
	return c.start(append([]string{"worker", "--system-port=0", "--grace=0s", "--response-host=127.0.0.1"}, args...)...)
}

// front starts a frontend.
func (c *compound) front(args ...string) *member {
	c.t.Helper()
	return c.start(append([]string{"frontend", "--http-port=0", "--response-host=127.0.0.1"}, args...)...)
}

// end ends the process gracefully.
func (m *member) end() {
	m.in.Close()
	select {
	case <-m.done:
	case <-time.After(clusterLimit):
		m.kill()
		m.t.Errorf("%v had to be killed: %s", m.cmd.Args[1:], &m.err)
	}
}

// kill ends the process like a crash.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
}

// base returns the base URL of a worker or frontend.
func (m *member) base() string {
	if m.HTTP != "" {
		return m.HTTP
	}
	return "http://" + m.System
}

// metric returns the sum of a metric of a worker or frontend, over the lines that contain where.
func (m *member) metric(name, where string) float64 {
	m.t.Helper()
	r, err := http.Get(m.base() + "/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer r.Body.Close()
	sum := 0.0
	for in := bufio.NewScanner(r.Body); in.Scan(); {
		line := in.Text()
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") || !strings.Contains(line, where) {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			m.t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// replayed is the output of a replay in this process.
type replayed struct {
	code   int
	report map[string]any
	errs   string
}

// replayHere runs the program in this process. The workers are other processes.
func replayHere(t *testing.T, args ...string) replayed {
	t.Helper()
	var out, errs bytes.Buffer
	r := replayed{code: run(append(args, "--output", "json"), strings.NewReader(""), &out, &errs), errs: errs.String()}
	if err := json.Unmarshal(out.Bytes(), &r.report); err != nil {
		t.Fatalf("%v: exit %d, %q, %s", args, r.code, &out, &errs)
	}
	return r
}

func (r replayed) number(key string) float64 {
	v, _ := r.report[key].(float64)
	return v
}

// counts returns the keys of a report that do not depend on the clock.
func counts() []string {
	return []string{"num_requests", "completed_requests", "total_input_tokens", "total_output_tokens"}
}

// shortTrace returns a file with the first lines of a trace in testdata.
func shortTrace(t *testing.T, name string, lines int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "traces", name))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfterN(string(text), "\n", lines+1)
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(all[:lines], "")), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// One command starts a cluster, replays on it, and removes all processes and files.
func TestSpawn(t *testing.T) {
	t.Setenv(asProgram, "1")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	trace := shortTrace(t, "short.jsonl", 40)
	common := []string{"trace", trace, "--speedup-ratio", "20"}
	want := replayHere(t, append(common, "--workers", "4")...)
	for _, how := range [][]string{
		{"--spawn", "4"},
		{"--spawn", "2", "--prefill-workers", "1", "--decode-workers", "1"},
	} {
		got := replayHere(t, append(append(common, "--mode", "cluster"), how...)...)
		if got.code != cli.ExitDone {
			t.Errorf("%v: exit %d: %s", how, got.code, got.errs)
		}
		for _, key := range counts() {
			if got.report[key] != want.report[key] {
				t.Errorf("%v: %s is %v, want %v as offline", how, key, got.report[key], want.report[key])
			}
		}
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", how, left, err)
		}
		if children := childProcesses(); len(children) > 0 {
			t.Errorf("%v: processes are left: %v", how, children)
		}
	}
}

// With --until, a replay on processes ends early without an error, and later requests of the trace do not arrive.
func TestSpawnUntil(t *testing.T) {
	t.Setenv(asProgram, "1")
	trace := shortTrace(t, "short.jsonl", 300)
	got := replayHere(t, "trace", trace, "--mode", "cluster", "--spawn", "2", "--until", "1500ms", "--speedup-ratio", "20")
	online, _ := got.report["online"].(map[string]any)
	if got.code != cli.ExitDone || online["partial"] != true {
		t.Errorf("exit %d, %v: %s", got.code, got.report, got.errs)
	}
	if n := got.number("num_requests"); n < 1 || n >= 300 || got.number("duration_ms") > 2500 {
		t.Errorf("%v requests in %v ms, want some and not all, in 1.5 s", n, got.number("duration_ms"))
	}
}

// childProcesses returns the child processes of this process, if the system lists them.
func childProcesses() []string {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	var all []string
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for _, pid := range strings.Fields(string(text)) {
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			all = append(all, pid+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return all
}

// If a worker cannot start, the run fails with the reason.
func TestSpawnFails(t *testing.T) {
	t.Setenv(asProgram, "1")
	var out, errs bytes.Buffer
	trace := shortTrace(t, "short.jsonl", 2)
	code := run([]string{"trace", trace, "--mode", "cluster", "--spawn", "1", "--insecure", "--response-host", "198.51.100.1"}, strings.NewReader(""), &out, &errs)
	if code != cli.ExitRefused || !strings.Contains(errs.String(), "198.51.100.1") || out.Len() > 0 {
		t.Errorf("exit %d, %q, %s", code, &out, &errs)
	}
	if children := childProcesses(); len(children) > 0 {
		t.Errorf("processes are left: %v", children)
	}
}

func sumOf(all []*member, name string) (sum float64) {
	for _, m := range all {
		sum += m.metric(name, "")
	}
	return sum
}
