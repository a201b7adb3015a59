package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// decoding is what a decode worker has in addition to every engine. Requests that wait in its
// queue have no memory yet.
type decoding struct {
	core      *Core
	retracted []*request // their KV cache is in host memory; they go before the queue
	arrived   []*request // have memory and all of their prompt in it, and no place yet
	ended     []endedOne // with the latest pass: they count until the next is planned
	looked    bool       // the queues were read for the pass that is planned next
}

// endedOne is the remainder of a request that has ended.
type endedOne struct{ length, longest int }

// receivesKV reports whether requests come with the KV cache of their prompts, to a decode worker
// of one rank, without windows, drafts, priorities and host memory.
func (d *decoding) receivesKV() bool {
	return d.core.Role == scheduler.Decode && !d.core.isRank && d.core.Window == 0 && d.core.Speculation == nil && !d.core.Priorities.On && d.core.tiers == nil
}

// takeIn admits requests with a KV cache that has come, each time before a pass is planned. It
// reports whether that, or a pass that was still in progress, makes a separate pass.
func (d *decoding) takeIn(now sim.Time, p *scheduler.Pass) (bool, error) {
	d.core.openPass(now, p)
	if waits, err := d.finishLost(now, p); waits || err != nil {
		return waits, err
	}
	if now > d.core.lastEnd {
		d.ended = d.ended[:0]
	}
	for range 2 {
		if !d.looked {
			d.looked = true
			if d.lookAtQueues(p) {
				p.Nanos = append(p.Nanos, 0)
				d.core.describeState(p)
				d.core.check()
				return true, nil
			}
		}
		if d.core.next.planned {
			return false, nil
		}
		d.core.planPass(d.core.next, p)
		if !d.core.Overlap && d.core.next.planned {
			return false, nil
		}
	}
	if !d.core.next.planned && len(p.Aborted) > 0 {
		d.core.restAborted(p)
		return true, nil
	}
	if !d.core.next.planned {
		return false, d.core.stallError()
	}
	return false, nil
}

// finishLost ends a pass that was planned for requests which have all ended meanwhile. It
// began when they ended, and a request that comes during it waits in a pass up to its end.
func (d *decoding) finishLost(now sim.Time, p *scheduler.Pass) (waits bool, err error) {
	f := d.core.next
	if !f.planned || f.lost < f.decodes || now <= d.core.lastEnd {
		return false, nil
	}
	d.core.measurePass()
	ms, err := d.core.Clock.Step(&d.core.step)
	if err != nil {
		return false, err
	}
	f.clear()
	d.core.batch.done++
	d.core.lastEnd += sim.Time(ms)
	d.core.lastDecode = d.core.lastEnd
	d.ended = d.ended[:0]
	if d.core.lastEnd <= now {
		return false, nil
	}
	p.End = d.core.lastEnd
	p.Gap = p.End - p.Start
	d.core.describeState(p)
	return true, nil
}

// lookAtQueues gives memory to retracted requests, then to waiting ones, and a place
// in the line to as many as there are places. It reports whether a request got one.
func (d *decoding) lookAtQueues(p *scheduler.Pass) bool {
	if len(d.retracted) == 0 && d.core.queue.waiting.Len() == 0 && len(d.arrived) == 0 {
		return false
	}
	d.resumeRetracted()
	if len(d.retracted) == 0 {
		d.admitArrivals()
	}
	return d.seatArrived(p)
}

// resumeRetracted gives memory to retracted requests, in order, as long as there is
// as much as they had and a reserve for each.
func (d *decoding) resumeRetracted() {
	active, n := d.countActive(), 0
	for _, r := range d.retracted {
		need := d.core.pages.poolTokens(d.cacheOf(r)) + d.core.ReservedDecode
		fits := need <= d.core.pages.free-d.core.ReservedDecode*(active+n)
		if d.slotsLeft() <= 0 || !fits && !d.isVacant() {
			break
		}
		d.allocCache(r)
		n++
	}
	d.retracted = d.retracted[:copy(d.retracted, d.retracted[n:])]
}

// admitArrivals gives memory to waiting requests, in order, as long as there is a reserve for
// each request that has some, and enough for one of them to end once all running ones are retracted.
func (d *decoding) admitArrivals() {
	active, longest, retractable := d.countActive(), 0, 0
	for _, e := range d.ended {
		retractable, longest = retractable+e.length, max(longest, e.longest)
	}
	for _, r := range d.core.batch.running {
		retractable += r.InputTokens + d.core.batch.gainedBy(r)
		longest = max(longest, d.longestOf(r))
	}
	for n := 0; d.core.queue.waiting.Len() > 0; n++ {
		r := d.core.queue.waiting.Front()
		budget := d.core.pages.free - max(d.core.ReservedDecode*(active+n), longest-retractable)
		need := max(d.core.pages.poolTokens(r.InputTokens)+d.core.ReservedDecode, d.longestOf(r)-retractable)
		if d.slotsLeft() <= 0 || need > budget && !d.isVacant() || d.core.MaxRunning > 0 && n >= 2*d.core.MaxRunning {
			return
		}
		d.core.queue.waiting.PopFront()
		d.allocCache(r)
	}
}

// fewPlaces is the number of places up to which a server reserves memory for three times as many requests.
const fewPlaces = 32

// countActive returns the requests that have memory, and the ones that ended just now.
func (d *decoding) countActive() int {
	return len(d.core.batch.running) + len(d.ended) + len(d.arrived)
}

// slotsLeft returns how many more requests may have memory.
func (d *decoding) slotsLeft() int {
	if d.core.MaxRunning == 0 {
		return 1
	}
	slots := d.core.MaxRunning
	if slots <= fewPlaces {
		slots *= 3
	}
	return slots - len(d.core.batch.running) - len(d.arrived)
}

// isVacant reports whether no request has memory, where a worker takes whatever its pool can hold.
func (d *decoding) isVacant() bool { return d.countActive() == 0 }

// cacheOf returns the tokens of the KV cache that r, which does not run, comes with: all but
// its latest output token.
func (d *decoding) cacheOf(r *request) int { return r.InputTokens + max(0, r.out-1) }

// longestOf returns the tokens that r, with its output, has room reserved for.
func (d *decoding) longestOf(r *request) int {
	return r.InputTokens + min(r.maxOut, d.core.ClipNewTokens)
}

// allocCache takes memory for the KV cache that r comes with.
func (d *decoding) allocCache(r *request) {
	r.stored = d.cacheOf(r)
	d.core.pages.free -= d.core.pages.poolTokens(r.stored)
	d.arrived = append(d.arrived, r)
}

// seatArrived lets requests with memory run, as long as there are places, and reports whether
// there are any. A new one has its first token at once.
func (d *decoding) seatArrived(p *scheduler.Pass) bool {
	places := len(d.arrived)
	if d.core.MaxRunning > 0 {
		places = min(places, max(0, d.core.MaxRunning-len(d.core.batch.running)-len(d.ended)))
	}
	for _, r := range d.arrived[:places] {
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: r.ID, Again: r.resumed})
		if r.out == 0 {
			r.out, r.lastToken = 1, p.Start
			if m := p.AddToken(r.ID, 1, r.asked(), 0, false); m.Last {
				d.core.finishRequest(r)
				continue
			}
		}
		d.core.batch.startRunning(r)
	}
	d.arrived = d.arrived[:copy(d.arrived, d.arrived[places:])]
	return places > 0
}

// removeQueued takes r, which does not run, out of the queue that it is in.
func (d *decoding) removeQueued(r *request) {
	for _, line := range []*[]*request{&d.retracted, &d.arrived} {
		for i, x := range *line {
			if x == r {
				*line = append((*line)[:i], (*line)[i+1:]...)
				return
			}
		}
	}
	d.core.queue.waiting.Remove(r)
}
