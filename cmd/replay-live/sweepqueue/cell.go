package sweepqueue

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/sweeps"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/queue"
	"github.com/replay-llm/replay/plan"
)

// newSweepCellCommand is the process in which a worker has cells run.
func newSweepCellCommand(s cli.Streams) *cobra.Command {
	var memoryMB int
	cmd := &cobra.Command{
		Use:    "cell",
		Short:  "Run cells for a worker: one JSON object per line, on standard input",
		Hidden: true,
		Args:   cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCells(cmd.Context(), s, uint64(memoryMB)*1e6)
		},
	}
	cmd.Flags().IntVar(&memoryMB, "memory-limit-mb", 4096, "")
	return cmd
}

// mostRequest is the longest line of a request, in bytes.
const mostRequest = 16 << 20

// runCells answers requests until there are no more. When the worker is gone, so
// is the cell that it asked for.
func runCells(ctx context.Context, s cli.Streams, limit uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests := make(chan queue.Request)
	go func() {
		defer close(requests)
		defer cancel()
		readRequests(ctx, s.In, requests)
	}()
	cli.ManyReplays()
	exceeded := watchMemory(ctx, limit)
	var runner sweeps.CellRunner
	replies := json.NewEncoder(s.Out)
	for r := range requests {
		done := make(chan queue.Reply, 1)
		go func() { done <- replyTo(ctx, &runner, r) }()
		select {
		case reply := <-done:
			if err := replies.Encode(reply); err != nil {
				return err
			}
		case text := <-exceeded:
			if err := replies.Encode(queue.Reply{Memory: text}); err != nil {
				return err
			}
			return excerpt.Errorf("%s", text)
		}
	}
	return nil
}

func readRequests(ctx context.Context, in io.Reader, to chan<- queue.Request) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, mostRequest)
	for lines.Scan() {
		var r queue.Request
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			return // whoever writes this is no worker
		}
		select {
		case to <- r:
		case <-ctx.Done():
			return
		}
	}
}

func replyTo(ctx context.Context, runner *sweeps.CellRunner, request queue.Request) queue.Reply {
	report, err := runner.Run(ctx, &plan.Cell{Settings: request.Settings, Sample: request.Sample})
	if err != nil {
		return queue.Reply{Refused: err.Error()}
	}
	return queue.Reply{Report: report}
}

// memoryPause is how often memory is looked at.
const memoryPause = 10 * time.Millisecond

// watchMemory calls back when this process takes more memory than limit. The
// collector is told to try harder before.
func watchMemory(ctx context.Context, limit uint64) <-chan string {
	debug.SetMemoryLimit(int64(limit / 10 * 9))
	exceeded := make(chan string, 1)
	go func() {
		samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		tick := time.NewTicker(memoryPause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			metrics.Read(samples)
			if used := samples[0].Value.Uint64() - samples[1].Value.Uint64(); used > limit {
				exceeded <- fmt.Sprintf("takes more than %d MB of memory", limit/1e6)
				return
			}
		}
	}()
	return exceeded
}
