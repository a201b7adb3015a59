// Package offline replays a workload on a logical clock: it moves time and
// carries effects between feed, routers and cores (docs/rules/harness.md).
//
// There are four drivers. single.go steps one worker; alone.go runs the workers
// of a round-robin pool one after the other, since none of them can tell, or with threads.go several at once;
// lazy.go brings workers behind a KV router from arrival to arrival; cluster.go
// is the event loop for everything else, and the twin of the other drivers in the
// tests. A cluster is its loop and parts with a duty each (agenda, faults, lives, clients,
// handover, fleet). Read config.go, run.go, single.go, then cluster.go with events.go and
// pool.go.
package offline

import (
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// Config is one replay.
type Config struct {
	harness.Config

	// Reject turns away, on arrival, requests that no idle engine could run, as a
	// server would. Otherwise one of them fails the replay.
	Reject bool
	// Until is the instant after which no request arrives and no pass begins; 0
	// lets the replay run to its end.
	Until sim.Time
	// Scalers, by pool, decide instead of Autoscale.Kind where they are not nil.
	Scalers [2]autoscale.Scaler
	// Foreseen is, by pool, the load that a perfect autoscaler knows beforehand.
	Foreseen [2]*autoscale.Foreseen

	// Threads is the number of independent workers that are simulated at once, at least 1; 0 is 1. The result does not
	// depend on it.
	Threads int

	steps bool // a planner reads every pass
}
