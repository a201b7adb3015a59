// Package offline replays a workload on a logical clock (harness.md parts 5 to
// 8): it moves time and carries effects between feed, router and cores.
//
// There are four drivers. single.go steps one worker; alone.go runs the workers
// of a round-robin pool one after the other, since none of them can tell;
// lazy.go brings workers behind a KV router from arrival to arrival; cluster.go
// is the event loop for everything else, and the twin of the others in the
// tests. Read config.go, run.go, single.go, then cluster.go with events.go,
// worker.go and pool.go.
package offline

import (
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Config is one replay.
type Config struct {
	Workload  *loadgen.Workload
	Admission loadgen.Admission

	// Workers is the pool of an aggregated replay. It is not read when Prefill
	// and Decode are set.
	Workers Pool
	Prefill *Pool
	Decode  *Pool

	Router       router.Mode
	RouterConfig router.Config // read by ModeKV only
	Seed         uint64        // of the router's draws at a temperature above 0

	// Scale changes the size of the pools as time goes on, in order of time.
	Scale []ScaleEvent

	// Reject turns away, on arrival, requests that no idle engine could run, as a
	// server would. Otherwise one of them fails the replay.
	Reject bool
	// Until is the instant after which no request arrives and no pass begins; 0
	// lets the replay run to its end.
	Until sim.Time

	// Compat reproduces the reference where it is wrong (docs/differences.md).
	Compat bool

	// Progress, when not nil, is told now and then how many requests have
	// finished.
	Progress func(finished int)

	// Observer, when not nil, is shown everything that happens.
	Observer Observer

	steps bool // a planner looks at every pass
}

// Pool is a number of workers that run the same engine.
type Pool = engines.Pool

// OversizeError reports requests that can never run on the engines of a replay.
type OversizeError = engines.OversizeError

// Disaggregated says that prefill and decode have workers of their own.
func (c *Config) Disaggregated() bool { return c.Prefill != nil && c.Decode != nil }

// entry is the pool where requests arrive.
func (c *Config) entry() *Pool {
	if c.Disaggregated() {
		return c.Prefill
	}
	return &c.Workers
}
