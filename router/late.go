package router

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// lateCaches holds back what workers announce of their caches until a router knows it.
type lateCaches struct {
	age     Age
	workers []announced
	pass    scheduler.Pass // of what is shown to the index
}

// announced is what a worker has announced and the router does not know yet, in order.
type announced struct {
	changes ring[lateChange]
	events  ring[lateEvent]
}

type lateChange struct {
	at sim.Time
	scheduler.KVChange
}

type lateEvent struct {
	at sim.Time
	scheduler.KVEvent
}

// makeLate prepares for signals that are late.
func (d *Dispatcher) makeLate() {
	if age := d.seen.ages[atCaches]; age != (Age{}) && d.index != nil {
		d.late = &lateCaches{age: age}
	}
	if age := d.seen.ages[atLoads]; age != (Age{}) && !d.blind {
		d.lateLoads = &lateLoads{age: age}
	}
}

// observe takes in what a pass did to the cache of w.
func (l *lateCaches) observe(w sim.WorkerID, p *scheduler.Pass) {
	if l.age.Never {
		return
	}
	for int(w) >= len(l.workers) {
		l.workers = append(l.workers, announced{})
	}
	x, at := &l.workers[w], p.VisibleAt()
	for _, c := range p.KV {
		*x.changes.push() = lateChange{at, c}
	}
	for i := range p.Events {
		to := x.events.push()
		stored, removed := to.Stored[:0], to.Removed[:0]
		*to = lateEvent{at, p.Events[i]}
		to.Stored, to.Removed = append(stored, to.Stored...), append(removed, to.Removed...)
	}
}

// catchUp shows an index what is known by now, worker by worker.
func (l *lateCaches) catchUp(now sim.Time, to index) error {
	asOf := l.age.asOf(now)
	for w := range l.workers {
		x, p := &l.workers[w], &l.pass
		p.KV, p.Events = p.KV[:0], p.Events[:0]
		for x.changes.count > 0 && x.changes.at(0).at <= asOf {
			p.KV = append(p.KV, x.changes.pop().KVChange)
		}
		for x.events.count > 0 && x.events.at(0).at <= asOf {
			p.Events = append(p.Events, x.events.pop().KVEvent)
		}
		if len(p.KV)+len(p.Events) == 0 {
			continue
		}
		if err := to.observe(sim.WorkerID(w), p); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what a worker has announced.
func (l *lateCaches) forget(w sim.WorkerID) {
	if int(w) < len(l.workers) {
		l.workers[w].changes.clear()
		l.workers[w].events.clear()
	}
}

// lateLoads delays the outcomes of requests until a router knows them.
type lateLoads struct {
	age    Age
	logs   []ring[loadChange] // by worker: a driver may bring one further than another
	tokens []int64            // by worker: prompt tokens to compute, as they are
	of     sim.Request        // of the change that is shown, as far as read
}

// loadChange is something that has become of a request.
type loadChange struct {
	at     sim.Time
	what   stepOfLife
	id     sim.RequestID
	prompt prompt.Prompt
	charge int64 // prompt tokens to compute
}

// stepOfLife is a step of a request on its worker.
type stepOfLife uint8

const (
	isPlaced   stepOfLife = iota
	isComputed            // its prompt
	hasLeft
)

// catchUp shows the policy what is known by now.
func (l *lateLoads) catchUp(now sim.Time, d *Dispatcher) {
	asOf := l.age.asOf(now)
	for w := range l.logs {
		for log := &l.logs[w]; log.count > 0 && log.at(0).at <= asOf; {
			d.showLoad(sim.WorkerID(w), log.pop())
		}
	}
}

// catchUpOn shows the policy all of a worker, which is new or there again.
func (l *lateLoads) catchUpOn(w sim.WorkerID, d *Dispatcher) {
	for log := &l.logs[w]; log.count > 0; {
		d.showLoad(w, log.pop())
	}
}

// noteLoad notes a step of a request at an instant.
func (d *Dispatcher) noteLoad(what stepOfLife, x *record, charge int64) {
	*d.lateLoads.logs[x.worker].push() = loadChange{d.clock, what, x.request.ID, x.request.Prompt, charge}
}

// showLoad shows the policy the outcome of a request.
func (d *Dispatcher) showLoad(w sim.WorkerID, c *loadChange) {
	of := &d.lateLoads.of
	of.ID, of.Prompt = c.id, c.prompt
	switch c.what {
	case isPlaced:
		d.showPlaced(w, of)
		d.seen.Tokens[w] += c.charge
		d.seen.noteLoad(w)
	case isComputed:
		d.seen.Tokens[w] -= c.charge
		d.seen.noteLoad(w)
	case hasLeft:
		d.showLeft(w, of)
	}
}

// showPlaced shows the policy a request that has been placed.
func (d *Dispatcher) showPlaced(w sim.WorkerID, q *sim.Request) {
	d.seen.Running[w]++
	switch {
	case d.loads != nil:
		d.loads.add(w, q)
	case d.kept.Blocks:
		d.seen.Blocks[w] += int64(q.Prompt.Blocks)
	}
	d.seen.noteLoad(w)
}

// showLeft ends what showPlaced began.
func (d *Dispatcher) showLeft(w sim.WorkerID, q *sim.Request) {
	d.seen.Running[w]--
	switch {
	case d.loads != nil:
		d.loads.remove(w, q)
	case d.kept.Blocks:
		d.seen.Blocks[w] -= int64(q.Prompt.Blocks)
	}
	d.seen.noteLoad(w)
}
