// Package offline replays a workload on a logical clock: it moves time and
// carries effects between feed, routers and cores (docs/rules/harness.md).
//
// There are four drivers. single.go steps one worker. alone.go runs the workers of a round-robin pool one after the
// other, or several in parallel with threads.go. lazy.go advances workers behind a KV router from arrival to arrival.
// cluster.go is the event loop for everything else; the tests compare the other drivers with it. A cluster is its
// loop and six parts: agenda, faults, lives, clients, handover and fleet. Read config.go, run.go, single.go, then
// cluster.go with events.go and pool.go.
package offline

import (
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// Config is the configuration of one replay.
type Config struct {
	harness.Config

	// Reject rejects, on arrival, requests that do not fit on an idle engine, as a server would. If Reject is false,
	// the replay fails at a request that does not fit.
	Reject bool
	// Until is the instant after which no request arrives and no pass begins; 0
	// lets the replay run to its end.
	Until sim.Time
	// Scalers are the custom scalers by pool. A scaler that is not nil replaces Autoscale.Kind.
	Scalers [2]autoscale.Scaler
	// Foreseen is the load by pool that a perfect autoscaler knows in advance.
	Foreseen [2]*autoscale.Foreseen

	// Threads is the number of independent workers that are simulated in parallel, at least 1; 0 means 1. The result
	// does not depend on Threads.
	Threads int

	steps bool // a planner reads every pass
}
