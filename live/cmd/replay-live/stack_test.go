//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cmd/replay-live/serve"
)

// signalled is a buffer that sends SIGTERM to this process at the first write.
type signalled struct {
	bytes.Buffer
	sent bool
}

func (w *signalled) Write(p []byte) (int, error) {
	if !w.sent {
		w.sent = true
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return 0, err
		}
	}
	return w.Buffer.Write(p)
}

// stack up prints the addresses of its servers, ends with code 0 after a signal, and leaves no files.
func TestStackUp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out signalled
	var errs bytes.Buffer
	if code := run([]string{"stack", "up"}, strings.NewReader(""), &out, &errs); code != cli.ExitDone || errs.Len() > 0 {
		t.Errorf("exit %d: %s", code, &errs)
	}
	var at serve.StackAddresses
	if err := json.Unmarshal(out.Bytes(), &at); err != nil || !strings.HasPrefix(at.Etcd, "http://127.0.0.1:") || !strings.HasPrefix(at.NATS, "nats://127.0.0.1:") {
		t.Errorf("%s: %v, want two addresses", &out, err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v, %v: want nothing left", left, err)
	}
}

// Workers and frontends exit with code 0 in limited time if etcd and NATS end before them or with them.
func TestStackAndWorkersEndTogether(t *testing.T) {
	for _, test := range []struct {
		name  string
		grace string
		end   os.Signal // signal to etcd and NATS
		plane string
		most  time.Duration
	}{
		{"together", "5s", syscall.SIGTERM, "tcp", 5 * time.Second},
		{"killed before", "500ms", syscall.SIGKILL, "nats", 3 * time.Second},
		{"paused", "500ms", syscall.SIGSTOP, "nats", 4 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startStack(t)
			env := []string{"ETCD_ENDPOINTS=" + s.at.Etcd, "NATS_SERVER=" + s.at.NATS}
			worker, werrs, _ := startProcessWith(t, env, 1, "worker", "--grace="+test.grace, "--request-plane="+test.plane)
			front, ferrs, _ := startProcessWith(t, env, 1, "frontend", "--http-port=0", "--grace="+test.grace)
			from := time.Now()
			for _, p := range []struct {
				*exec.Cmd
				signal os.Signal
			}{{s.cmd, test.end}, {worker, syscall.SIGTERM}, {front, syscall.SIGTERM}} {
				if err := p.Process.Signal(p.signal); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(worker.Wait(), front.Wait()); err != nil {
				t.Errorf("%v: %s%s", err, werrs, ferrs)
			}
			if took := time.Since(from); took > test.most {
				t.Errorf("took %v, want at most %v: %s%s", took, test.most, werrs, ferrs)
			}
		})
	}
}

// A worker that has left discovery does not wait for the end of its grace period if etcd ends.
func TestGraceEndsWithEtcd(t *testing.T) {
	s := startStack(t)
	c := &compound{t: t, env: []string{"ETCD_ENDPOINTS=" + s.at.Etcd, "NATS_SERVER=" + s.at.NATS}}
	worker, front := c.worker("--grace=1m"), c.front()
	poll.Until(t, "the worker", func() bool { return strings.Contains(front.get("/health"), `"instances":1`) })
	worker.signal(syscall.SIGTERM)
	poll.Until(t, "the worker has left discovery", func() bool { return !strings.Contains(front.get("/health"), `"instances":1`) })
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	select {
	case <-worker.done:
		t.Logf("took %v", time.Since(from))
	case <-time.After(30 * time.Second):
		t.Fatalf("still serves, want an end some 3 s after the end of etcd: %s", &worker.err)
	}
	if code := worker.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d: %s", code, &worker.err)
	}
}
