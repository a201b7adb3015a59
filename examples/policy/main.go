// This example routes requests with a custom policy, and compares it with two built-in policies.
//
//	go run ./examples/policy
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/replay-llm/replay/examples/internal/chat"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// cacheFirst routes a request to the worker that has cached most of its prompt. cacheFirst considers only workers
// with at most Slack more requests than the least loaded worker.
type cacheFirst struct{ Slack int32 }

// Needs returns the data that the router must keep for the policy. The policy receives no other data.
func (p *cacheFirst) Needs() router.Needs { return router.Needs{Running: true, Overlap: true} }

// Choose returns the worker for q. Choose reads columns that are indexed by worker id.
func (p *cacheFirst) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	least := c.Running[c.Workers[0]]
	for _, w := range c.Workers {
		least = min(least, c.Running[w])
	}
	best := router.None
	for _, w := range c.Workers {
		switch {
		case c.Running[w] > least+p.Slack:
		case best == router.None, c.Overlap[w] > c.Overlap[best], c.Overlap[w] == c.Overlap[best] && c.Running[w] < c.Running[best]:
			best = w
		}
	}
	return router.Choice{Worker: best, Second: router.None}
}

// giveSlack returns the policy for a replay, which creates one instance for each pool.
func giveSlack(n int32) policy.Choice {
	return &policy.Given{Name: "cache-first", Make: func(policy.Options) (router.Policy, error) { return &cacheFirst{Slack: n}, nil }}
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	spec, err := chat.Spec(4, 20)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "                  mean TTFT   p99 TTFT   mean ITL   cached")
	for _, r := range []struct {
		name   string
		router policy.Choice
	}{
		{"round robin", policy.RoundRobin},
		{"the KV router", policy.KV},
		{"cache, slack 4", giveSlack(4)},
		{"cache, slack 12", giveSlack(12)},
		{"cache, slack 400", giveSlack(400)},
	} {
		spec.Router = r.router
		result, err := spec.Run(context.Background(), replay.Streams{})
		if err != nil {
			return err
		}
		x := result.Report
		fmt.Fprintf(out, "%-16s %8.1f ms %7.0f ms %7.2f ms %6.1f %%\n", r.name, x.TTFT.Mean, x.TTFT.P99, x.ITL.Mean, 100*x.PrefixCacheReusedRatio)
	}
	return nil
}
