package router

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// lateCaches holds the cache events of workers until a router knows them.
type lateCaches struct {
	age     Age
	workers []announced
	pass    scheduler.Pass // scratch for the events that the index gets
}

// announced is the events of a worker that the router does not know yet, in order.
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

// makeLate prepares delayed signals.
func (d *Dispatcher) makeLate() {
	if age := d.seen.ages[atCaches]; age != (Age{}) && d.index != nil {
		d.late = &lateCaches{age: age}
	}
	if age := d.seen.ages[atLoads]; age != (Age{}) && !d.blind {
		d.lateLoads = &lateLoads{age: age}
	}
}

// observe records the cache changes of a pass on w.
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

// catchUp applies the events that are known by now to an index, worker by worker.
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

// forget drops the events of a worker.
func (l *lateCaches) forget(w sim.WorkerID) {
	if int(w) < len(l.workers) {
		l.workers[w].changes.clear()
		l.workers[w].events.clear()
	}
}

// lateLoads holds the changes of requests until a router knows them.
type lateLoads struct {
	age    Age
	logs   []ring[loadChange] // by worker, because a driver may advance one worker further than another
	tokens []int64            // by worker: actual prompt tokens to compute
	of     sim.Request        // scratch: the request of the current change, only with the fields that are read
}

// loadChange is a change of a request.
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
	isComputed            // its prompt has been computed
	hasLeft
)

// catchUp applies the changes that are known by now.
func (l *lateLoads) catchUp(now sim.Time, d *Dispatcher) {
	asOf := l.age.asOf(now)
	for w := range l.logs {
		for log := &l.logs[w]; log.count > 0 && log.at(0).at <= asOf; {
			d.showLoad(sim.WorkerID(w), log.pop())
		}
	}
}

// catchUpOn applies all changes of a worker that has been added.
func (l *lateLoads) catchUpOn(w sim.WorkerID, d *Dispatcher) {
	for log := &l.logs[w]; log.count > 0; {
		d.showLoad(w, log.pop())
	}
}

// noteLoad records a step of a request at the current instant.
func (d *Dispatcher) noteLoad(what stepOfLife, x *record, charge int64) {
	*d.lateLoads.logs[x.worker].push() = loadChange{d.clock, what, x.request.ID, x.request.Prompt, charge}
}

// showLoad applies a change to the facts of the policy.
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

// showPlaced adds a placed request to the facts of the policy.
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

// showLeft removes a request from the facts of the policy.
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
