package policy

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// session sends all turns of a session to one worker, its home, which has cached the earlier turns. session keeps no
// state: a score of each worker for a session is computed from both names, and the worker with the highest score is
// the home (rendezvous hashing). A worker that leaves therefore moves only its sessions, and routers with the same
// workers agree.
//
// While the home is overloaded, the worker with the next highest score is used. Requests without a session go to the
// worker with the lowest load.
type session struct{ needs router.Needs }

// A worker is overloaded if it has overloadRatio times the mean number of requests per worker, rounded up, or more. A
// worker with less than fewRequests is never overloaded.
const (
	overloadRatio = 1.25
	fewRequests   = 8
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

// requestLimit returns the number of requests at which a worker is overloaded. The limit is above the mean, so that
// there is always a worker below it.
func requestLimit(c *router.Candidates) float64 {
	requests := 1 // the current request
	for _, w := range c.Workers {
		requests += int(c.Running[w])
	}
	return max(fewRequests, float64(overloadRatio*float64(requests))/float64(len(c.Workers)))
}

// drawLot returns a pseudorandom number that depends only on both names.
func drawLot(session, worker uint64) uint64 { return sim.MixBits(sim.MixBits(worker) ^ session) }
