package sglang

import (
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
)

// A request needs room in the second pool for the tokens that it has there at the same time. The error for a request
// that is too long contains the required size of the first pool.
func TestFitsWindows(t *testing.T) {
	for _, c := range []struct{ window, windowPages, in, out, blocks int }{
		{0, 0, 500, 500, 0},
		{16, 100, 500, 500, 0},
		{16, 25, 500, 500, 0}, // 400 tokens: 3 windows, 256 tokens and 6 pages
		{16, 24, 500, 500, 0}, // one page less; the request ends without other requests
		{400, 24, 300, 84, 0},
		{400, 24, 300, 85, 0},
		{400, 24, 300, 86, 105}, // the request grows to one token more than the pool has
		{400, 24, 100, 284, 0},
	} {
		config := config(16, 100)
		config.Window, config.WindowPages = c.window, c.windowPages
		err := Fits(config, c.in, c.out)
		switch {
		case c.blocks == 0 && err != nil:
			t.Errorf("%+v: %v, want it to fit", c, err)
		case c.blocks > 0 && (err == nil || err.Blocks != c.blocks):
			t.Errorf("%+v: %v, want it to need %d blocks", c, err, c.blocks)
		}
	}
}

// After warm-up, a core with windows allocates no memory while it cuts prompts, leaves tombstones and retracts.
func TestNoAllocationsWithWindows(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the checks of invariants allocate")
	}
	c := config(16, 500)
	c.Window, c.WindowPages = 40, 240
	c.Conservativeness, c.ClipNewTokens = 0, 1
	preempted := 0
	core := mustBuild(t, c)
	step := keepBusy(t, core, 60, func(p *scheduler.Pass) { preempted += p.Preempted })
	for range 9000 {
		step()
	}
	preempted = 0
	if n := testing.AllocsPerRun(2000, step); n > 0 {
		t.Errorf("%v allocations per pass, want none", n)
	}
	if preempted == 0 || core.win.tree.Live() == core.pages.tree.Pages {
		t.Errorf("%d retractions, %d of %d pages with a window; want some retractions and fewer pages", preempted, core.win.tree.Live(), core.pages.tree.Pages)
	}
}
