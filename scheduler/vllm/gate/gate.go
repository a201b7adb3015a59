// Package gate keeps prompts out of passes that follow too soon on one that computed prompts (prefill_schedule_interval), so
// that requests that decode are not delayed each time.
package gate

// Gate counts the passes of an engine. The zero Gate is of an engine that has planned none.
type Gate struct {
	Planned int64 // passes planned that compute anything
	latest  int64 // of these, the number of the latest that computes prompts
	Left    bool  // requests stayed in line in the latest pass that was open
}

// Pass is a pass that has been planned.
type Pass struct {
	Computes, Prefills bool // anything, prompts
	Open               bool // the line was read
	Waiting            int  // requests in line
}

// IsShut reports whether the pass that is planned next computes no prompts, with every as the interval, if requests decode.
func (g *Gate) IsShut(every int) bool {
	return every > 1 && g.latest > 0 && !g.Left && g.Planned+1-g.latest < int64(every)
}

// Add counts a pass.
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
