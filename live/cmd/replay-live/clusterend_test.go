package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/poll"
)

// caller starts a replay on processes in a separate process.
func caller(t *testing.T, env []string, args ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	t.Helper()
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	cmd = exec.Command(os.Args[0], append(args, "--output", "json")...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(append(os.Environ(), asProgram+"=1"), env...), out, errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out, errs
}

// descendants returns the child processes of a process.
func descendants(pid int) []int {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	var all []int
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// An interrupted replay stops its requests, reports the completed requests, stops its cluster and exits with 130.
func TestClusterFaultInterrupt(t *testing.T) {
	clusterRequest(t)
	temporary := t.TempDir()
	trace := shortTrace(t, "short.jsonl", 3000)
	cmd, out, errs := caller(t, []string{"TMPDIR=" + temporary}, "trace", trace, "--mode", "cluster", "--spawn", "3")
	poll.Until(t, "three workers", func() bool { return len(descendants(cmd.Process.Pid)) == 3 })
	workers := descendants(cmd.Process.Pid)
	time.Sleep(5 * time.Second)
	from := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	mayTake(t, "SIGINT to the end, with the cluster taken down", time.Since(from), 3*time.Second)
	var report struct {
		Requests  int `json:"num_requests"`
		Completed int `json:"completed_requests"`
		Online    struct {
			Partial   bool
			Cancelled int
			Errors    struct{ Count int }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v: %q, %s", err, out, errs)
	}
	o := report.Online
	t.Logf("%d requests, %d completed, %d cancelled: %s", report.Requests, report.Completed, o.Cancelled, errs)
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !o.Partial || report.Completed == 0 || o.Errors.Count != 0 ||
		report.Completed+o.Cancelled != report.Requests {
		t.Errorf("exit %d, report %+v", code, report)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	for _, pid := range workers {
		if alive(pid) {
			t.Errorf("worker %d is left", pid)
		}
	}
}

// When the caller is killed, its workers end.
func TestClusterFaultOrphans(t *testing.T) {
	clusterRequest(t)
	cmd, _, _ := caller(t, []string{"TMPDIR=" + t.TempDir()}, "trace", shortTrace(t, "short.jsonl", 3000), "--mode", "cluster", "--spawn", "3")
	poll.Until(t, "three workers", func() bool { return len(descendants(cmd.Process.Pid)) == 3 })
	workers := descendants(cmd.Process.Pid)
	time.Sleep(3 * time.Second)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	took := poll.Until(t, "workers gone", func() bool { return !alive(workers[0]) && !alive(workers[1]) && !alive(workers[2]) })
	mayTake(t, "caller killed to the end of its workers", took, 40*time.Second)
}
