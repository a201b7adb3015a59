package ranks

import (
	"math"

	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

const (
	everyMs   = 100  // the least time between its reports of changes
	silenceMs = 50   // without a report of a rank, before it reports a pass that other ranks may still run
	aliveMs   = 5000 // between its reports where nothing has changed
)

// coordinator collects the loads of ranks and reports them to the front end, as vLLM's does: the numbers from before
// the first report of a later pass, or the latest numbers of silent ranks.
type coordinator struct {
	counts     []vllm.Counts // the latest of each rank
	step       []vllm.Counts // of the pass before the latest reported
	hasStep    bool
	changed    bool
	wave, pass int
	told       int      // when it last reported to the front end, in whole ms
	due        sim.Time // when it reports next, if it hears nothing before
}

func newCoordinator(n int) coordinator {
	c := coordinator{counts: make([]vllm.Counts, n), step: make([]vllm.Counts, n), wave: -1, pass: -1}
	c.listen(0)
	return c
}

// listen sets when the coordinator, which has no work at now, is to report to the front end.
func (c *coordinator) listen(now sim.Time) {
	wait, least := aliveMs, silenceMs
	if c.changed {
		wait = everyMs
	}
	if c.hasStep {
		least = 0
	}
	c.due = now + sim.Time(max(0, least, wait-(int(math.Floor(float64(now)))-c.told)))
}

// hear receives the report of a rank.
func (c *coordinator) hear(n *news) {
	if n.wave > c.wave || n.wave == c.wave && n.pass > c.pass {
		if c.changed {
			copy(c.step, c.counts)
			c.hasStep = true
		}
		c.wave, c.pass = n.wave, n.pass
	}
	c.counts[n.rank] = n.counts
	c.changed = true
	c.listen(n.at)
}

// advance reports to the front end what was due before now, or by then.
func (c *coordinator) advance(now sim.Time, by bool, seen []vllm.Counts) {
	for c.due < now || by && c.due == now {
		at := c.due
		if c.hasStep {
			copy(seen, c.step)
			c.hasStep = false
		} else {
			copy(seen, c.counts)
			c.changed = false
		}
		c.told = int(math.Floor(float64(at)))
		c.listen(at)
	}
}
