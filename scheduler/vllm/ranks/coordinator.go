package ranks

import (
	"math"

	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

const (
	everyMs   = 100  // minimum time between reports of changes
	silenceMs = 50   // minimum time without reports of ranks before a report, if other ranks may still run the pass
	aliveMs   = 5000 // time between reports if nothing has changed
)

// coordinator collects the loads of ranks and reports them to the front end, like vLLM's coordinator. coordinator
// reports the loads before the first report of a later pass, or the latest loads if ranks do not report.
type coordinator struct {
	counts     []vllm.Counts // latest load of each rank
	step       []vllm.Counts // loads after the previous reported pass
	hasStep    bool
	changed    bool
	wave, pass int
	told       int      // time of the latest report to the front end, in whole ms
	due        sim.Time // time of the next report if no rank reports before
}

func newCoordinator(n int) coordinator {
	c := coordinator{counts: make([]vllm.Counts, n), step: make([]vllm.Counts, n), wave: -1, pass: -1}
	c.listen(0)
	return c
}

// listen sets the time of the next report to the front end. The coordinator is idle at now.
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

// hear processes the report of a rank.
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

// advance sends the reports to the front end that were due before now or, if by is set, at now. advance writes the
// loads to seen.
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
