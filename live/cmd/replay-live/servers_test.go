//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/poll"
)

// countingServer is a completion server that counts concurrent requests. Each token takes 5 ms.
type countingServer struct{ now, most, all atomic.Int32 }

func (s *countingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
		return
	}
	if r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	s.all.Add(1)
	var q struct {
		Prompt string
		Max    int `json:"max_tokens"`
	}
	_ = json.NewDecoder(r.Body).Decode(&q)
	w.Header().Set("Content-Type", "text/event-stream")
	for range q.Max {
		fmt.Fprint(w, "data: {\"choices\":[{\"text\":\" a\",\"finish_reason\":null}]}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-time.After(5 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", len(strings.Fields(q.Prompt)), q.Max)
}

// startProcess starts the program as a separate process, and returns the first line that it prints.
func startProcess(t *testing.T, lines int, args ...string) (cmd *exec.Cmd, errs *bytes.Buffer, line string) {
	t.Helper()
	return startProcessWith(t, nil, lines, args...)
}

// startProcessWith is like startProcess, with additional environment variables.
func startProcessWith(t *testing.T, env []string, lines int, args ...string) (cmd *exec.Cmd, errs *bytes.Buffer, line string) {
	t.Helper()
	errs = new(bytes.Buffer)
	cmd = exec.Command(os.Args[0], args...)
	// By default, the race detector delays the end of the process by 1 s.
	cmd.Env, cmd.Stderr = append(append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0"), env...), errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if lines > 0 {
		if line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%v: %v: %s", args, err, errs)
		}
	}
	return cmd, errs, line
}

// rowsOf returns the number of rows of a measured run by status. rowsOf checks that the trace of the run has as many
// lines.
func rowsOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	count := map[string]int{}
	rows, err := os.ReadFile(filepath.Join(dir, "measured.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(rows)); d.More(); {
		var r struct{ Status string }
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		count[r.Status]++
	}
	trace, err := os.ReadFile(filepath.Join(dir, "trace.jsonl"))
	if n := bytes.Count(trace, []byte("\n")); err != nil || n != bytes.Count(rows, []byte("\n")) || !bytes.HasSuffix(rows, []byte("\n")) {
		t.Errorf("%s: %d lines of the trace, %v rows, %v", dir, n, count, err)
	}
	return count
}

// Sessions are driven in closed loop through the proxy, at most K at a time. SIGINT ends the client and SIGTERM the
// proxy. Client and proxy leave complete files.
func TestDriveAndRecordProcesses(t *testing.T) {
	s := &countingServer{}
	server := httptest.NewServer(s)
	defer server.Close()
	dir := t.TempDir()
	var trace strings.Builder
	for i := range 20 {
		fmt.Fprintf(&trace, `{"session_id":"s%d","timestamp":0,"input_length":8,"output_length":4,"hash_ids":[%d]}`+"\n", i, i)
		fmt.Fprintf(&trace, `{"session_id":"s%d","delay":5,"input_length":16,"output_length":4,"hash_ids":[%d,%d]}`+"\n", i, i, 100+i)
	}
	path, long := filepath.Join(dir, "t.jsonl"), filepath.Join(dir, "long.jsonl")
	for name, text := range map[string]string{path: trace.String(), long: `{"timestamp":0,"input_length":8,"output_length":10000,"hash_ids":[1]}` + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	proxy, errs, line := startProcess(t, 1, "record", "--listen", "127.0.0.1:0", "--upstream", server.URL, "--out", filepath.Join(dir, "recorded"), "--grace", "200ms")
	var at struct{ HTTP string }
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	t.Setenv("REPLAY_PROGRESS", "lines")
	var out, warnings bytes.Buffer
	if code := run([]string{"drive", path, "--trace-block-size", "8", "--max-in-flight", "3", "--url", at.HTTP, "--out", filepath.Join(dir, "driven"), "--output", "json"}, strings.NewReader(""), &out, &warnings); code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, &warnings)
	}
	if !strings.Contains(warnings.String(), "progress: 40 of 40 requests\n") {
		t.Errorf("no progress of 40 requests:\n%s", &warnings)
	}
	var report struct {
		Completed int  `json:"completed_requests"`
		Late      *int `json:"sent_late_requests"`
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Completed != 40 || report.Late == nil {
		t.Errorf("%s: %v", &out, err)
	}
	if most := s.most.Load(); most != 3 || s.all.Load() != 40 {
		t.Errorf("%d of %d requests at a time, want 3 of 40", most, s.all.Load())
	}
	client, clientErrs, _ := startProcess(t, 0, "drive", long, "--trace-block-size", "8", "--url", at.HTTP, "--out", filepath.Join(dir, "ended"))
	second, _, _ := startProcess(t, 0, "drive", long, "--trace-block-size", "8", "--url", at.HTTP, "--out", filepath.Join(dir, "broken"))
	poll.Until(t, "both are served", func() bool { return s.now.Load() == 2 })
	for _, end := range []struct {
		cmd    *exec.Cmd
		signal syscall.Signal
		code   int
		errs   *bytes.Buffer
	}{{client, syscall.SIGINT, cli.ExitInterrupted, clientErrs}, {proxy, syscall.SIGTERM, cli.ExitDone, errs}} {
		if err := end.cmd.Process.Signal(end.signal); err != nil {
			t.Fatal(err)
		}
		_ = end.cmd.Wait()
		if code := end.cmd.ProcessState.ExitCode(); code != end.code {
			t.Errorf("%v: exit %d, want %d: %s", end.signal, code, end.code, end.errs)
		}
	}
	_ = second.Wait()
	if code := second.ProcessState.ExitCode(); code != cli.ExitIncomplete {
		t.Errorf("client of a proxy that ended: exit %d, want %d", code, cli.ExitIncomplete)
	}
	for name, want := range map[string]map[string]int{
		"driven": {"ok": 40}, "recorded": {"ok": 40, "cancelled": 2}, "ended": {"cancelled": 1}, "broken": {"error": 1},
	} {
		if rows := rowsOf(t, filepath.Join(dir, name)); fmt.Sprint(rows) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, rows, want)
		}
	}
}
