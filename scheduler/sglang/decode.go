package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// decoding is the additional state of a decode worker. Requests in the queue of a decode worker have no memory yet.
type decoding struct {
	core      *Core
	retracted []*request // retracted requests with their KV cache in host memory; they go before the queue
	arrived   []*request // requests with memory and all of their prompt in it, but not running yet
	ended     []endedOne // requests that ended with the latest pass; they count until the next pass is planned
	looked    bool       // the queues were read for the next planned pass
}

// endedOne is the remaining data of a request that has ended.
type endedOne struct{ length, longest int }

// receivesKV reports whether requests arrive with the KV cache of their prompts. Requests arrive with KV caches only
// on a decode worker of one rank without windows, drafts, priorities and host memory.
func (d *decoding) receivesKV() bool {
	return d.core.Role == scheduler.Decode && !d.core.isRank && d.core.Window == 0 && d.core.Speculation == nil && !d.core.Priorities.On && d.core.tiers == nil
}

// admitReceived admits requests with a received KV cache, each time before a pass is planned. admitReceived returns
// true if the admission, or a pass still in progress, takes a separate pass.
func (d *decoding) admitReceived(now sim.Time, p *scheduler.Pass) (bool, error) {
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

// finishLost ends a planned pass if all of its requests have ended in the meantime. The pass began when the lost
// requests ended. A request that arrives during the pass waits until its end.
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

// lookAtQueues allocates memory for retracted requests, then for waiting requests, and starts as many as may run.
// lookAtQueues reports whether a request started.
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

// resumeRetracted allocates memory for retracted requests, in order. resumeRetracted stops if the pool lacks the
// memory of the next request and a reserve for each request.
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

// admitArrivals allocates memory for waiting requests, in order. Each request with memory needs a reserve. After
// retraction of all running requests, the longest one must have enough memory to finish.
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

// fewPlaces is the maximum max_running_requests with which a server allocates memory for three times as many
// requests.
const fewPlaces = 32

// countActive returns the number of requests with memory, including requests that have just ended.
func (d *decoding) countActive() int {
	return len(d.core.batch.running) + len(d.ended) + len(d.arrived)
}

// slotsLeft returns the number of further requests that may have memory.
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

// isVacant reports whether no request has memory. A worker then admits any request that fits in its pool.
func (d *decoding) isVacant() bool { return d.countActive() == 0 }

// cacheOf returns the length of the received KV cache of r, which does not run, in tokens: all tokens but its latest
// output token.
func (d *decoding) cacheOf(r *request) int { return r.InputTokens + max(0, r.out-1) }

// longestOf returns the number of tokens reserved for r, including its output.
func (d *decoding) longestOf(r *request) int {
	return r.InputTokens + min(r.maxOut, d.core.ClipNewTokens)
}

// allocCache allocates memory for the received KV cache of r.
func (d *decoding) allocCache(r *request) {
	r.stored = d.cacheOf(r)
	d.core.pages.free -= d.core.pages.poolTokens(r.stored)
	d.arrived = append(d.arrived, r)
}

// seatArrived starts requests with memory, as far as the limit allows, and reports whether any request started. A new
// request gains its first token immediately.
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

// removeQueued removes r, which does not run, from its queue.
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
