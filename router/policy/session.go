package policy

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// session sends the turns of a session to one worker, its home, where the turns
// before are cached. It remembers nothing: each worker draws a lot for each
// session from both names, and the highest lot is the home (rendezvous hashing).
// Hence a worker that leaves takes only its own sessions elsewhere, and routers
// that see the same workers agree.
//
// While the home has too much to do, the worker with the next highest lot stands
// in. Requests without a session go to the worker that has least to do.
type session struct{ needs router.Needs }

// A worker has too much to do with crowded times the mean number of requests of a
// worker, rounded up, but never with less than fewRequests.
const (
	crowded     = 1.25
	fewRequests = 8
)

func newSession(o Options) (router.Policy, error) { return &session{loadNeeds(o)}, nil }

func (p *session) Needs() router.Needs { return p.needs }

func (p *session) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	if q.Session < 0 {
		return router.Choice{Worker: findLightest(c), Second: router.None}
	}
	limit := requestLimit(c)
	best, highest := router.None, uint64(0)
	for _, w := range c.Workers {
		if float64(c.Running[w]) >= limit {
			continue
		}
		if lot := drawLot(uint64(q.Session), c.Name(w)); best == router.None || lot > highest {
			best, highest = w, lot
		}
	}
	return router.Choice{Worker: best, Second: router.None}
}

// requestLimit returns the number of requests with which a worker has too much to
// do. It is above the mean, so that there always is a worker with fewer.
func requestLimit(c *router.Candidates) float64 {
	requests := 1 // the one in hand
	for _, w := range c.Workers {
		requests += int(c.Running[w])
	}
	return max(fewRequests, float64(crowded*float64(requests))/float64(len(c.Workers)))
}

// drawLot returns a number that looks random and follows from both names.
func drawLot(session, worker uint64) uint64 { return sim.MixBits(sim.MixBits(worker) ^ session) }
