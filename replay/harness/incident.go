package harness

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// Incident is a fault or another incident, and its cost for the requests that it removed from workers.
type Incident struct {
	At   sim.Time
	What string
	// Workers are the affected workers, by pool.
	Workers [2][]sim.WorkerID
	collector.EventCost
}

// OutcomeFields returns the report fields about outcomes of requests and repeated work.
func (r *Run) OutcomeFields() []collector.Field {
	by, sum := r.Collector.Outcomes()
	return []collector.Field{
		collector.Of("lost_requests", by[collector.Lost]),
		collector.Of("lost_tokens", sum.LostTokens),
		collector.Of("retries", sum.Retries),
		collector.Of("migrations", sum.Migrations),
		collector.Of("recomputed_tokens", sum.Recomputed),
	}
}
