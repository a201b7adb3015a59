package offline

import (
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/sim"
)

// clients is the state of the clients that send the requests (docs/rules/harness.md, Clients).
type clients struct {
	c     *cluster
	rules *engines.Client // nil: each client sends its request once, and waits
	of    []attempt       // by request
	away  int             // requests that wait to be sent again
}

// attempt is the latest attempt of a client to send a request.
type attempt struct {
	number int32 // number of earlier attempts
	// hungUp reports that the client has timed out, at the instant since. The request leaves the cluster after the
	// pass in progress, or when it next enters a router.
	hungUp bool
	since  sim.Time
}

// sendRequest brings a request to the router of the entry pool. The client sent the request at the instant sent and
// waits for the first token from then on.
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

// hasHungUp reports whether the client of a request has timed out while the request is in flight.
func (l *clients) hasHungUp(id sim.RequestID) bool {
	return l.rules != nil && l.of[id].hungUp
}

// endAttempt ends an attempt of a request that has left the cluster. The client retries the request, or the request
// ends. event is the incident that caused its departure; 0: none.
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

// resend is the arrival of a retried request after the front end. The cluster treats a retried request as a new
// request.
type resend struct {
	id   sim.RequestID
	sent sim.Time
}

func (x resend) happen(c *cluster) error {
	id := x.id
	c.agenda.barren = 0 // the number of attempts is limited
	c.clients.away--
	c.inFlight--
	c.lives.remake(id, 0)
	q := *c.Requests.Get(int(id))
	q.Arrived = c.now
	c.Requests.Set(int(id), &q)
	return c.clients.sendRequest(id, x.sent)
}

// patience is the timeout of a client that waits for the first token.
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
	return nil // the request is in transfer or will return
}

// takeHeld removes a request from the queue of a pool or of its router. takeHeld reports whether the request was
// queued.
func (c *cluster) takeHeld(p *pool, id sim.RequestID) bool {
	if i := slices.Index(p.parked, id); i >= 0 {
		p.parked = slices.Delete(p.parked, i, i+1)
		c.inFlight--
		return true
	}
	return p.Router.Withdraw(id)
}

// hangUp ends the attempt of a request that was cancelled after its client had timed out.
type hangUp struct{}

func (hangUp) takeLeaver(c *cluster, l leaver) error {
	return c.clients.endAttempt(&l, collector.Lost, 0)
}
