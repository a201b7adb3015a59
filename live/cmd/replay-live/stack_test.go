//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/live/cmd/replay-live/serve"
)

// signalled sends this process a signal when something is written.
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

// The servers say where they are and end with a signal, well and without a trace.
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
