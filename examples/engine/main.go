// This example replays an hour of chat on two custom engines, and on an engine with the order of vLLM. The first
// custom engine serves the shortest requests first. The second computes requests in batches.
//
//	go run ./examples/engine
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/replay-llm/replay/examples/internal/chat"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/sim"
)

// shortest admits the requests with the fewest remaining tokens first. If no KV block is free, shortest preempts the
// request with the most remaining tokens. shortest knows the lengths of answers, as no real engine does, so that its
// result is an upper bound for a good estimate. FirstCome schedules all requests in the order of the lists.
type shortest struct{ custom.FirstCome }

// Plan plans a pass.
func (e *shortest) Plan(p *custom.Plan) {
	slices.SortStableFunc(p.Waiting, byWork)
	slices.SortStableFunc(p.Running, byWork)
	e.FirstCome.Plan(p)
}

// byWork orders requests by the remaining tokens of prompt and answer.
func byWork(a, b *custom.Request) int {
	return cmp.Compare(a.Left()+a.Output-a.Generated, b.Left()+b.Output-b.Generated)
}

// batches computes requests together, from their prompts to the last token of the longest answer, and admits no
// request before the end. A batch begins when it is full, or when its first request has waited long enough.
type batches struct {
	custom.Options
	size  int      // maximum number of requests in a batch
	wait  sim.Time // for more of them
	waits bool     // a batch waits, and begins at start at the latest
	start sim.Time
}

// Plan plans a pass.
func (e *batches) Plan(p *custom.Plan) {
	for _, r := range p.Running {
		p.Compute(r.ID, r.Left())
	}
	if len(p.Running) > 0 {
		return
	}
	if !e.waits {
		e.waits, e.start = true, p.Now+e.wait
	}
	if len(p.Waiting) < e.size && p.Now < e.start {
		p.WaitUntil(e.start)
		return
	}
	e.waits = false
	free := p.Free()
	for _, r := range p.Waiting[:min(len(p.Waiting), e.size)] {
		free -= (r.Input + r.Output + e.BlockTokens - 2) / e.BlockTokens // all that it will ever hold
		if free < 0 {
			return
		}
		p.Compute(r.ID, r.Left()-p.Cached(r.ID))
	}
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	spec, err := chat.Spec(2, 20)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "                     mean TTFT      p99 TTFT   mean ITL    mean E2E")
	for _, x := range []struct {
		name string
		make func(custom.Options) (custom.Engine, error)
	}{
		{"first come", func(o custom.Options) (custom.Engine, error) { return &custom.FirstCome{Options: o}, nil }},
		{"shortest first", func(o custom.Options) (custom.Engine, error) {
			return &shortest{custom.FirstCome{Options: o}}, nil
		}},
		{"batches of 64", func(o custom.Options) (custom.Engine, error) { return &batches{Options: o, size: 64, wait: 50}, nil }},
		{"batches of 256", func(o custom.Options) (custom.Engine, error) { return &batches{Options: o, size: 256, wait: 50}, nil }},
	} {
		result, err := spec.Run(context.Background(), replay.Streams{Engine: x.make})
		if err != nil {
			return err
		}
		r := result.Report
		fmt.Fprintf(out, "%-16s %10.0f ms %10.0f ms %7.2f ms %8.0f ms\n", x.name, r.TTFT.Mean, r.TTFT.P99, r.ITL.Mean, r.E2E.Mean)
	}
	return nil
}
