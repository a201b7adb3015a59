package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// Every long command reports its progress. Each command except plan counts up to its total; the total of plan is an
// estimate.
func TestProgressOfCommands(t *testing.T) {
	t.Setenv("REPLAY_PROGRESS", "lines")
	trace := "testdata/files/requests.jsonl"
	for _, c := range []struct{ args, what string }{
		{"trace " + trace + " --trace-block-size 64", "requests"},
		{"concurrency " + trace + " --trace-block-size 64 --max-in-flight 2", "requests"},
		{"plan " + trace + " --trace-block-size 64 --slo p99:e2e=1h --max-workers 1", "replays"},
		{"sweep --trace " + trace + " --set trace-block-size=64 --grid workers=1,2", "cells"},
		{"bounds " + trace + " --trace-block-size 64 --workers 2", "replays"},
		{"fork " + trace + " --trace-block-size 64 --at 1s --future workers=2", "futures"},
		{"calibrate testdata/files/measured", "steps"},
	} {
		var errs bytes.Buffer
		if code := run(strings.Fields(c.args), nil, io.Discard, &errs); code != cli.ExitDone {
			t.Errorf("%s: exit %d: %s", c.args, code, &errs)
		}
		done, total := -1, -1
		for line := range strings.Lines(errs.String()) {
			_, _ = fmt.Sscanf(line, "progress: %d of %d "+c.what+"\n", &done, &total) // other lines are not progress
		}
		if done < 1 || done > total || done < total && !strings.HasPrefix(c.args, "plan") {
			t.Errorf("%s: %d of %d %s at the end:\n%s", c.args, done, total, c.what, &errs)
		}
	}
}
