package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cluster"
)

// Workers end when their input ends. A worker that does not end is killed. The unexpected end of a worker is
// reported.
func TestFleet(t *testing.T) {
	start := func(f *cluster.Fleet, script string) {
		t.Helper()
		if err := f.Start("/bin/sh", "-c", script); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	f := cluster.NewFleet(&log)
	for range 3 {
		start(f, "echo ready; echo warning >&2; cat >/dev/null; echo over >&2")
	}
	if err := f.Stop(within(t)); err != nil {
		t.Error(err)
	}
	if got := log.String(); strings.Count(got, "over\n") != 3 || strings.Count(got, "warning\n") != 3 {
		t.Errorf("said %q, want over and warning three times", got)
	}
	if err := f.Err(); err != nil {
		t.Errorf("workers that were told to end were lost: %v", err)
	}

	stubborn := cluster.NewFleet(&log)
	start(stubborn, "while true; do read line || sleep 1000; done")
	ended, end := context.WithCancel(context.Background())
	end()
	if err := stubborn.Stop(ended); !errors.Is(err, cluster.ErrKilled) {
		t.Errorf("stop: %v, want %v", err, cluster.ErrKilled)
	}

	weak := cluster.NewFleet(&log)
	start(weak, "exit 3")
	poll.Until(t, "an end", func() bool { return weak.Err() != nil })
	if err := weak.Err(); err == nil || !strings.Contains(err.Error(), "worker process 0: exit status 3") {
		t.Errorf("error %v, want exit status 3", err)
	}
	if err := weak.Stop(within(t)); err != nil {
		t.Error(err)
	}
	if err := weak.Start("/does/not/exist"); err == nil {
		t.Error("a program that does not exist was started")
	}
}
