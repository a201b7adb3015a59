package policy

import (
	"slices"
	"strconv"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// stickyLeastLoaded is the policy sticky_least_loaded of vllm-router. stickyLeastLoaded sends all turns of a session
// to one worker. The first turn goes to the worker with the fewest sessions. Among workers with equally few sessions,
// the worker with the highest hash of the session and the worker's URL gets the turn. A session expires after a time
// without a turn. A request without a session is placed in the same way and is not counted as a session.
type stickyLeastLoaded struct {
	url        string
	expiration sim.Time
	sessions   map[int32]stickySession
	counts     []int // number of sessions by worker
	swept      sim.Time
}

// stickySession is the worker of a session, and the time of its latest turn.
type stickySession struct {
	worker sim.WorkerID
	last   sim.Time
}

// sweepInterval is the time between searches for expired sessions.
const sweepInterval sim.Time = 60_000

func newStickyLeastLoaded(o Options) (router.Policy, error) {
	s := o.gateway(StickyLeastLoaded)
	return &stickyLeastLoaded{url: s.WorkerURL, expiration: sim.Time(1000 * s.SessionExpirationSecs), sessions: map[int32]stickySession{}}, nil
}

func (p *stickyLeastLoaded) Needs() router.Needs { return router.Needs{} }

func (p *stickyLeastLoaded) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	p.sweep(c.Now)
	for _, w := range c.Workers {
		for int(w) >= len(p.counts) {
			p.counts = append(p.counts, 0)
		}
	}
	if q.Session < 0 {
		return router.Choice{Worker: p.place("request:"+strconv.Itoa(int(q.ID)), c), Second: router.None}
	}
	s, known := p.sessions[q.Session]
	if known && !slices.Contains(c.Workers, s.worker) {
		p.counts[s.worker]--
		known = false
	}
	if !known {
		s.worker = p.place(strconv.Itoa(int(q.Session)), c)
		p.counts[s.worker]++
	}
	s.last = c.Now
	p.sessions[q.Session] = s
	return router.Choice{Worker: s.worker, Second: router.None}
}

// place returns the worker with the fewest sessions. The hash of key decides between equals.
func (p *stickyLeastLoaded) place(key string, c *router.Candidates) sim.WorkerID {
	least := p.counts[c.Workers[0]]
	for _, w := range c.Workers {
		least = min(least, p.counts[w])
	}
	best, highest := router.None, uint64(0)
	for _, w := range c.Workers {
		if p.counts[w] > least {
			continue
		}
		if hash := ringHash(key + ":" + urlOf(p.url, c.Name(w))); best == router.None || hash > highest {
			best, highest = w, hash
		}
	}
	return best
}

// sweep removes expired sessions, at most once per interval.
func (p *stickyLeastLoaded) sweep(now sim.Time) {
	if now-p.swept < sweepInterval {
		return
	}
	for id, s := range p.sessions {
		if now-s.last >= p.expiration {
			delete(p.sessions, id)
			p.counts[s.worker]--
		}
	}
	p.swept = now
}
