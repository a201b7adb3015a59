package scheduler

import "github.com/replay-llm/replay/sim"

// Detail is what a pass did to single requests, and how full the engine was. It
// is filled for who hangs one on a Pass; a run of passes has no Work and no
// Lost.
type Detail struct {
	PrefillEnd sim.Time        // when the decode part of the first pass begins
	Work       []Work          // who computed prompt tokens, in order
	Lost       []sim.RequestID // who lost their place, in order
	Resumed    []sim.RequestID // whose inter-token latencies Pass.Gaps are

	// After the pass.
	Running, Waiting int // requests
	Blocks           int // KV blocks of the pool
	Held, Cached     int // KV blocks held by requests, and cached without a holder
}

// Work is one request's part in a pass's prefill.
type Work struct {
	Request    sim.RequestID
	Prefix     int // prompt tokens that were there before
	Prompt     int // prompt tokens computed
	Recomputed int // generated tokens computed once more, after a preemption
}

// Reset empties d, keeping its memory.
func (d *Detail) Reset() { *d = Detail{Work: d.Work[:0], Lost: d.Lost[:0], Resumed: d.Resumed[:0]} }
