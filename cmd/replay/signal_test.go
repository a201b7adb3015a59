//go:build unix

package main

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// blockingInput signals when it is read, and then blocks.
type blockingInput struct{ reading chan struct{} }

func (b blockingInput) Read([]byte) (int, error) {
	close(b.reading)
	select {}
}

// A signal ends a command within a minute, even a command that waits for input.
func TestSignals(t *testing.T) {
	for sent, want := range map[syscall.Signal]int{syscall.SIGINT: cli.ExitInterrupted, syscall.SIGTERM: cli.ExitTerminated} {
		in := blockingInput{make(chan struct{})}
		go func() {
			<-in.reading
			if err := syscall.Kill(os.Getpid(), sent); err != nil {
				t.Error(err)
			}
		}()
		var out, errs bytes.Buffer
		started := time.Now()
		code := run([]string{"trace", "-"}, in, &out, &errs)
		if took := time.Since(started); code != want || took > time.Minute || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%v: exit %d after %v: %s%s; want exit %d", sent, code, took, &out, &errs, want)
		}
	}
}
