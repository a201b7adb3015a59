package offline

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// clients send the requests (docs/rules/harness.md, Clients).
type clients struct {
	c     *cluster
	rules *engines.Client // nil: each sends its request once, and waits
	of    []attempt       // by request
	away  int             // requests that will be sent again
}

// attempt is the latest time that a request was sent.
type attempt struct {
	number int32 // times that it was sent before
	// hungUp reports that its client does not wait any more. It leaves the cluster with the pass
	// in progress, or when it comes before a router next, and was called off at since.
	hungUp bool
	since  sim.Time
}

// sendRequest brings a request before the first router that its client has sent at an instant, from which on the client
// waits for the first token.
func (l *clients) sendRequest(id sim.RequestID, sent sim.Time) error {
	for int(id) >= len(l.of) {
		l.of = append(l.of, attempt{})
	}
	l.c.Collector.Sent(id, sent)
	if l.rules.Timeout > 0 {
		l.c.agenda.schedule(max(l.c.now, sent+l.rules.Timeout), patience{id, l.of[id].number})
	}
	return l.c.enterFirst(l.c.Requests.Get(int(id)))
}

// hasHungUp reports whether no client waits for a request that is still in flight.
func (l *clients) hasHungUp(id sim.RequestID) bool {
	return l.rules != nil && l.of[id].hungUp
}

// endAttempt lets the client of a request that has left the cluster retry it, or ends it. event is the cause of its
// departure; 0: none.
func (l *clients) endAttempt(x *leaver, how collector.Outcome, event int) error {
	if err := l.c.handover.leaveWay(x.id); err != nil {
		return err
	}
	a := &l.of[x.id]
	from := l.c.now
	if a.hungUp {
		from, a.hungUp = a.since, false
	}
	if int(a.number) >= l.rules.Retries {
		l.c.lives.showLeft(x, how, false)
		if x.refused != nil {
			l.c.Reject(x.refused)
		} else {
			l.c.Collector.GiveUp(x.id, how, x.gained, event)
		}
		return l.c.finishRequest(x.id, l.c.now)
	}
	l.c.lives.showLeft(x, collector.Unfinished, false)
	l.c.Collector.Resend(x.id, x.gained, event)
	a.number++
	l.away++
	l.c.inFlight++
	sent := max(l.c.now, from+l.rules.WaitBefore(int(a.number), l.c.Seed, x.id))
	l.c.agenda.schedule(sent+l.c.FrontEndTime(l.c.Requests.Get(int(x.id))), resend{x.id, sent})
	return nil
}

// resend is a request that its client has sent again, when it leaves the front end. To the cluster it is a new one.
type resend struct {
	id   sim.RequestID
	sent sim.Time
}

func (x resend) happen(c *cluster) error {
	id := x.id
	c.agenda.barren = 0 // there is an end to attempts
	c.clients.away--
	c.inFlight--
	c.lives.remake(id, 0)
	q := *c.Requests.Get(int(id))
	q.Arrived = c.now
	c.Requests.Set(int(id), &q)
	return c.clients.sendRequest(id, x.sent)
}

// patience is the end of the time that a client waits for the first token.
type patience struct {
	id      sim.RequestID
	attempt int32
}

func (x patience) happen(c *cluster) error {
	c.agenda.barren = 0
	a := &c.clients.of[x.id]
	if c.Requests.Get(int(x.id)) == nil || a.number != x.attempt || c.Collector.Record(x.id).Tokens > 0 {
		return nil
	}
	c.Collector.TimeOut(x.id)
	a.hungUp, a.since = true, c.now
	if c.lives.workerOf(x.id) != nil {
		return c.lives.callOff(x.id, hangUp{})
	}
	for _, p := range c.pools {
		if c.takeHeld(p, x.id) {
			if err := c.clients.endAttempt(&leaver{id: x.id, pool: p, worker: collector.Nowhere}, collector.Lost, 0); err != nil {
				return err
			}
			return p.Drain(c.now)
		}
	}
	if t := c.handover.find(x.id); t != nil && t.at == asking {
		return c.clients.endAttempt(&leaver{id: x.id, pool: c.pools[1], worker: collector.Nowhere}, collector.Lost, 0)
	}
	return nil // it is on its way
}

// takeHeld takes a request out of the line before a pool; it reports false where it is not in it.
func (c *cluster) takeHeld(p *pool, id sim.RequestID) bool {
	if i := slices.Index(p.parked, id); i >= 0 {
		p.parked = slices.Delete(p.parked, i, i+1)
		c.inFlight--
		return true
	}
	return p.Router.Withdraw(id)
}

// hangUp continues with a request that was cancelled because its client had hung up.
type hangUp struct{}

func (hangUp) takeLeaver(c *cluster, l leaver) error {
	return c.clients.endAttempt(&l, collector.Lost, 0)
}
