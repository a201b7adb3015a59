package replay_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/sim"
)

// A run is configured by a Spec: a workload and a cluster. The result of a run has a report and a record of each
// request.
func ExampleSpec_Run() {
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 60, Input: 1500, Output: 30, Interval: 30, Turns: 1},
		Speedup:   1,
		Topology:  replay.Topology{Pools: replay.OnePool(engineargs.Default(), 2), Router: policy.Name("least-loaded")},
	}
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := result.Report
	fmt.Printf("%d requests in %.0f ms, TTFT %.1f ms on average, p99 ITL %.1f ms\n", r.Completed, r.DurationMS, r.TTFT.Mean, r.ITL.P99)
	// Output: 60 requests in 1996 ms, TTFT 49.6 ms on average, p99 ITL 46.7 ms
}

// fewest is a router policy that chooses the worker with the fewest requests.
type fewest struct{}

// Needs returns the facts that the router must keep for the policy.
func (fewest) Needs() router.Needs { return router.Needs{Running: true} }

// Choose returns one of c.Workers, the lowest id among equals.
func (fewest) Choose(_ *sim.Request, c *router.Candidates) router.Choice {
	best := c.Workers[0]
	for _, w := range c.Workers {
		if c.Running[w] < c.Running[best] {
			best = w
		}
	}
	return router.Choice{Worker: best, Second: router.None}
}

// A custom router policy replaces a built-in policy. examples/policy has a policy that reads caches.
func ExampleSpec_policy() {
	spec := exampleSpec()
	spec.Router = &policy.Given{Name: "fewest", Make: func(policy.Options) (router.Policy, error) { return fewest{}, nil }}
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("p99 TTFT %.0f ms\n", result.Report.TTFT.P99)
	// Output: p99 TTFT 51 ms
}

// shortest is an engine that admits the shortest prompts first.
type shortest struct{}

// Plan plans one pass. A waiting request is admitted with its first tokens. A request without prompt tokens to
// compute gains one token of its answer.
func (shortest) Plan(p *custom.Plan) {
	for _, r := range p.Running {
		if p.Fits(r.ID, r.Left()) {
			p.Compute(r.ID, r.Left())
		} else {
			p.Preempt(r.ID) // no KV block is free for its next token
		}
	}
	slices.SortStableFunc(p.Waiting, func(a, b *custom.Request) int { return a.Left() - b.Left() })
	for _, r := range p.Waiting {
		if left := r.Left() - p.Cached(r.ID); p.Fits(r.ID, left) {
			p.Compute(r.ID, left)
		}
	}
}

// A custom engine decides what passes compute. KV blocks, the prefix cache, the duration of passes and the report are
// the same as with built-in engines. examples/engine has two further engines.
func ExampleStreams_engine() {
	spec := exampleSpec()
	spec.Pools[0].Engine.Blocks = 100
	streams := replay.Streams{Engine: func(custom.Options) (custom.Engine, error) { return shortest{}, nil }}
	result, err := spec.Run(context.Background(), streams)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("mean TTFT %.0f ms, mean ITL %.1f ms\n", result.Report.TTFT.Mean, result.Report.ITL.Mean)
	// Output: mean TTFT 1685 ms, mean ITL 37.3 ms
}

// placements counts requests by worker.
type placements struct {
	harness.NoObserver
	on [3]int
}

// Routed is called for each request that is placed on a worker.
func (p *placements) Routed(_ scheduler.Role, _ sim.Time, placed *router.Placement) {
	p.on[placed.Worker]++
}

// An observer receives all events. An observer embeds NoObserver for the events that it ignores.
func ExampleStreams_observer() {
	spec := exampleSpec()
	spec.Router = policy.Name("random")
	var seen placements
	if _, err := spec.Run(context.Background(), replay.Streams{Observer: &seen}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("requests by worker:", seen.on)
	// Output: requests by worker: [26 21 13]
}

// eager is a scaler that requests a worker for every four requests in flight.
type eager struct{}

// Want is called at every tick, with the latest scrape that the scaler knows.
func (eager) Want(s *autoscale.Signals) int { return (s.Running + s.Waiting + 3) / 4 }

// A custom scaler replaces the Kind of Autoscale, which is empty. All fields of Autoscale except Kind set the inputs
// of the scaler and the startup of workers.
func ExampleStreams_scaler() {
	spec := exampleSpec()
	spec.Pools[0].Count = 1
	spec.Autoscale = &replay.Autoscale{Min: 1, Max: 8, Sync: 500, Interval: 250, Startup: autoscale.Ladder{WarmUp: autoscale.Law{Mean: 100}}}
	result, err := spec.Run(context.Background(), replay.Streams{Scaler: eager{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range result.Scaling[0].Acts {
		fmt.Printf("%4.0f ms: from %d to %d workers\n", float64(a.At), a.From, a.To)
	}
	// Output:
	// 500 ms: from 1 to 5 workers
	// 1000 ms: from 5 to 3 workers
}

// exampleSpec returns a small replay on three workers.
func exampleSpec() replay.Spec {
	return replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 60, Input: 1500, Output: 30, Interval: 30, Turns: 1},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 3)},
	}
}
