// Package gate delays prompts to a minimum distance between passes that compute prompts (prefill_schedule_interval),
// so that decoding requests wait less often.
package gate

// Gate counts the passes of an engine. The zero Gate belongs to an engine without passes.
type Gate struct {
	Planned int64 // number of non-empty passes that were planned
	latest  int64 // number of the latest pass that computed prompts
	Left    bool  // the latest open pass left requests in the queue
}

// Pass describes a pass that was planned.
type Pass struct {
	Computes, Prefills bool // the pass computes tokens, or prompt tokens
	Open               bool // admission from the queue was allowed
	Waiting            int  // number of requests in the queue
}

// IsShut reports whether the next pass must not compute prompts if requests decode. every is the interval in passes.
func (g *Gate) IsShut(every int) bool {
	return every > 1 && g.latest > 0 && !g.Left && g.Planned+1-g.latest < int64(every)
}

// Add counts a planned pass.
func (g *Gate) Add(p Pass) {
	if p.Computes {
		g.Planned++
	}
	if p.Prefills {
		g.latest = g.Planned
	}
	if p.Open {
		g.Left = p.Waiting > 0
	}
}
