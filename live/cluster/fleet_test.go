package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/cluster"
)

// Workers end with their input; one that does not is killed; one that ends by
// itself is noticed.
func TestFleet(t *testing.T) {
	shell := func(script string) cluster.Command {
		return cluster.Command{Path: "/bin/sh", Args: []string{"-c", script}}
	}
	var out, log bytes.Buffer
	f := cluster.NewFleet(&out, &log)
	for range 3 {
		if _, err := f.Start(shell("echo ready; echo warning >&2; cat >/dev/null; echo over")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Stop(within(t)); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "over\n"); n != 3 || strings.Count(log.String(), "warning\n") != 3 {
		t.Errorf("said %q and %q, want over and warning three times", &out, &log)
	}
	select {
	case <-f.Lost():
		t.Error("workers that were told to end were lost")
	default:
	}

	stubborn := cluster.NewFleet(&out, &log)
	p, err := stubborn.Start(shell("while true; do read line || sleep 1000; done"))
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if err := stubborn.Stop(ended); !errors.Is(err, cluster.ErrKilled) {
		t.Errorf("stop: %v, want %v", err, cluster.ErrKilled)
	}
	<-p.Done()

	weak := cluster.NewFleet(&out, &log)
	if _, err := weak.Start(shell("exit 3")); err != nil {
		t.Fatal(err)
	}
	<-weak.Lost()
	if err := weak.Err(); err == nil || !strings.Contains(err.Error(), "worker process 0: exit status 3") {
		t.Errorf("error %v, want exit status 3", err)
	}
	if err := weak.Stop(within(t)); err != nil {
		t.Error(err)
	}
	if _, err := weak.Start(cluster.Command{Path: "/does/not/exist"}); err == nil {
		t.Error("a program that does not exist was started")
	}
}
