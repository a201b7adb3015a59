package policy

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Picker is how the router of an inference pool chooses, as its EndpointPickerConfig says: the
// worker with the highest sum of weighted scores, each from 0 to 1.
type Picker struct {
	Prefix float64      // weight of the prompt's blocks that are cached, between the least and the most of all workers
	KV     float64      // of the KV blocks that are free, as a share
	Queue  float64      // of short queues, between the longest and the shortest
	Gate   *router.Gate // flow control; nil: none
}

// PickerName is what reports call a router that is a Picker.
const PickerName Name = "llm-d"

// Settling is the time from the start in which nothing is known of caches: fresh servers compile
// their kernels, and what they cache is told late. Prompts that many have in common are
// cached everywhere afterwards.
const Settling sim.Time = 5000

// picker is the policy of a Picker.
type picker struct {
	Picker
	rand *rand.Rand
	ties []sim.WorkerID
}

// NewPicker returns a policy by a Picker.
func NewPicker(p Picker, o Options) router.Policy { return &picker{Picker: p, rand: newRand(o)} }

func (p *picker) Needs() router.Needs {
	return router.Needs{Running: true, Overlap: p.Prefix > 0, Metrics: true, Gate: p.Gate}
}

func (p *picker) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	least, most := c.Overlap[c.Workers[0]], c.Overlap[c.Workers[0]]
	short, long := c.Metrics[c.Workers[0]].Waiting, c.Metrics[c.Workers[0]].Waiting
	for _, w := range c.Workers {
		least, most = min(least, c.Overlap[w]), max(most, c.Overlap[w])
		short, long = min(short, c.Metrics[w].Waiting), max(long, c.Metrics[w].Waiting)
	}
	best := -1.0
	p.ties = p.ties[:0]
	for _, w := range c.Workers {
		m := &c.Metrics[w]
		prefix := 1.0
		if q.Arrived >= Settling {
			prefix = placeBetween(c.Overlap[w], least, most)
		}
		score := float64(p.Prefix*prefix) + float64(p.KV*(1-m.KV)) + float64(p.Queue*placeBetween(long-m.Waiting, 0, long-short))
		switch {
		case score > best:
			best, p.ties = score, append(p.ties[:0], w)
		case score == best:
			p.ties = append(p.ties, w)
		}
	}
	if len(p.ties) == 1 {
		return router.Choice{Worker: p.ties[0], Second: router.None}
	}
	return router.Choice{Worker: p.ties[p.rand.IntN(len(p.ties))], Second: router.None}
}

// placeBetween returns where n lies from least to most, 1 where they are one.
func placeBetween(n, least, most int32) float64 {
	if most == least {
		return 1
	}
	return float64(n-least) / float64(most-least)
}
