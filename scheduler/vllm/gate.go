package vllm

// gate keeps prompts out of passes that follow too soon on one that computed prompts
// (Config.PrefillInterval), so that those who decode are not held up each time.
type gate struct {
	planned int64 // passes planned that compute anything
	latest  int64 // of these, the number of the latest that computes prompts
	left    bool  // the latest pass that was open and looked at the line left someone in it
}

// isShut reports whether the pass that is planned next leaves prompts alone.
func (c *Core) isShut() bool {
	g := &c.gate
	if c.cfg.PrefillInterval <= 1 || g.latest == 0 || g.left || g.planned+1-g.latest >= int64(c.cfg.PrefillInterval) {
		return false
	}
	for _, s := range c.running {
		if !c.requests[s].midway {
			return true
		}
	}
	return false
}

// closePlan enters a pass that has been planned.
func (c *Core) closePlan(p *pass) {
	g := &c.gate
	if !p.flight.isEmpty() {
		g.planned++
	}
	if p.prefills {
		g.latest = g.planned
	}
	if !p.shut && p.lost == 0 { // else the line was not looked at
		g.left = c.waiting.Len() > 0
	}
}
