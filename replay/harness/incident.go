package harness

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// Incident is something that went wrong, and what it cost the requests that it threw out.
type Incident struct {
	At   sim.Time
	What string
	// Workers are the affected workers, by pool.
	Workers [2][]sim.WorkerID
	collector.EventCost
}

// OutcomeFields returns how requests ended and what was done twice, for a report.
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
