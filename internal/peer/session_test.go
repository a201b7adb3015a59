//go:build unix

package peer

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/optional"
)

// A process in another session survives the kill of the program and keeps the streams open. All waits still end in
// time.
func TestWaitsEndDespiteProcessesInOtherSessions(t *testing.T) {
	optional.Program(t, "setsid", "true")
	const timeout, most = 400 * time.Millisecond, 20 * time.Second
	for _, tc := range []struct{ script, want string }{
		{`setsid sh -c 'echo $$ > pid; exec sleep 30' <&0`, "no answer to line 1 within 400ms"},
		{`setsid sh -c 'echo $$ > pid; read x; echo 1; exec sleep 30' <&0`, "no answer to line 2 within 400ms"},
		{`setsid sh -c 'echo $$ > pid; exec sleep 30' & while read x; do echo 1; done`, "a process that it started keeps standard output open 400ms after the end of its input"},
		{`setsid sh -c 'echo $$ > pid; exec sleep 30' & while read x; do echo 1; done; exec sleep 30`, "it runs for 400ms after the end of its input"},
	} {
		t.Chdir(t.TempDir())
		p := startShell(t, context.Background(), tc.script, timeout)
		endSession(t)
		started := time.Now()
		err := askThrice(p)
		if err == nil {
			err = p.Close()
		} else {
			p.Kill()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.script, err, tc.want)
		}
		if took := time.Since(started); took > most {
			t.Errorf("%s: took %v", tc.script, took)
		}
	}
}

// When the context ends, writes to a full pipe also end in time, even if a process in another session keeps the pipe
// open.
func TestContextEndsWaitsForOtherSessions(t *testing.T) {
	optional.Program(t, "setsid", "true")
	for _, line := range []string{"x\n", strings.Repeat("x", 1_000_000) + "\n"} {
		t.Chdir(t.TempDir())
		ctx, cancel := context.WithCancel(context.Background())
		p := startShell(t, ctx, `setsid sh -c 'echo $$ > pid; exec sleep 30' <&0`, 30*time.Second)
		endSession(t)
		time.AfterFunc(100*time.Millisecond, cancel)
		started := time.Now()
		if _, err := p.Ask([]byte(line)); err == nil || ctx.Err() == nil {
			t.Errorf("got %v before the context ended", err)
		}
		p.Kill()
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("took %v", took)
		}
	}
}

// endSession kills the process with the number in the file pid when the test ends.
func endSession(t *testing.T) {
	t.Helper()
	name, err := filepath.Abs("pid")
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for started := time.Now(); !strings.HasSuffix(string(text), "\n"); text, _ = os.ReadFile(name) {
		if time.Since(started) > 10*time.Second {
			t.Fatal("the process did not start")
		}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
}
