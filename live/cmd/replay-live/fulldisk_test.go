//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/live/cmd/replay-live/serve"
)

// If its data directory is on a full disk, stack up prints one line with the reason. A limit on the size of files
// simulates the full disk.
func TestStackOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `ulimit -f 100; exec "$0" "$@"`, os.Args[0], "stack", "up", "--data-dir", dir)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitRefused || bytes.Count(out, []byte("\n")) != 1 ||
		!bytes.Contains(out, []byte(dir)) || !bytes.Contains(out, []byte("file too large")) {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
}

// If the disk fills up later, stack up ends with the reason.
func TestStackWhenDiskFillsUp(t *testing.T) {
	t.Parallel()
	cmd, errs, line := startProcess(t, 1, "stack", "up", "--data-dir", t.TempDir())
	var at serve.StackAddresses
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: 1}, nil); err != nil {
		t.Fatal(err)
	}
	// The lease of a worker is written to the disk.
	worker, _, _ := startProcess(t, 0, "worker", "--etcd", at.Etcd, "--nats", at.NATS)
	defer func() { _ = worker.Process.Kill(); _ = worker.Wait() }()
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(clusterLimit):
		t.Fatal("it goes on")
	}
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitRefused || !strings.Contains(errs.String(), "file too large") || strings.Contains(errs.String(), "goroutine") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A worker or frontend that cannot print its address ends with the reason.
func TestWorkerWithoutItsLine(t *testing.T) {
	t.Parallel()
	c := newCompound(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, command := range []string{"worker", "frontend"} {
		var errs bytes.Buffer
		cmd := exec.Command(os.Args[0], append([]string{command}, c.flags()...)...)
		if command == "worker" {
			cmd.Args = append(cmd.Args, "--grace=0s")
		} else {
			cmd.Args = append(cmd.Args, "--http-port=0")
		}
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram+"=1"), full, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(clusterLimit, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
		if code := cmd.ProcessState.ExitCode(); code != cli.ExitRefused || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%s: exit %d: %s", command, code, &errs)
		}
	}
}
