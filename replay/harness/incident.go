package harness

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// Incident is something that went wrong, and what it cost the requests that it threw out.
type Incident struct {
	At   sim.Time
	What string
	// Workers are those that it hit, by pool.
	Workers [2][]sim.WorkerID
	collector.EventCost
}

// OutcomeFields returns how requests ended and what was done twice, for a report.
func (r *Run) OutcomeFields() []collector.Field {
	by, sum := r.Collector.Outcomes()
	return []collector.Field{
		{Key: "lost_requests", Value: by[collector.Lost]},
		{Key: "lost_tokens", Value: sum.LostTokens},
		{Key: "retries", Value: sum.Retries},
		{Key: "migrations", Value: sum.Migrations},
		{Key: "recomputed_tokens", Value: sum.Recomputed},
	}
}
