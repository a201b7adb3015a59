package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// A prefill worker sends the KV cache of a prompt in transfer chunk by chunk: the cached part when the pass of the
// first chunk begins, each chunk when its pass ends, in whole pages except the last. It keeps the pages until all has
// arrived.

// handsOver reports whether the engine is such a worker, without windows, drafts, priorities and host memory.
func (o *outbox) handsOver() bool {
	return o.core.Role == scheduler.Prefill && o.core.Window == 0 && o.core.Speculation == nil && !o.core.Priorities.On && o.core.tiers == nil
}

// transferDelay returns the time that the whole KV cache of r takes to a decode worker.
func (o *outbox) transferDelay(r *sim.Request) sim.Time {
	if o.core.Role != scheduler.Prefill {
		return 0
	}
	return o.core.Transfer.Delay(r.InputTokens)
}

// outbox is the KV caches that a prefill worker keeps until they have been sent.
type outbox struct {
	core     *Core
	inFlight []sending
}

// sending is a prompt with pages in transfer.
type sending struct {
	*request
	until sim.Time
}

// sendUpTo sends the pages of r up to the first tokens, from now on, after earlier ones, and returns the time until all
// have arrived.
func (o *outbox) sendUpTo(r *request, tokens int, now sim.Time) sim.Time {
	n := tokens - r.sent
	if n <= 0 {
		return (r.arrives - now).Max0()
	}
	delay := o.core.Transfer.Delay(n)
	if r.arrives > now {
		delay += r.arrives - now
	}
	r.sent, r.arrives = tokens, now+delay
	return delay
}

// sendCached sends what the prompts of a batch found in the cache, from now on.
func (o *outbox) sendCached(f *flight, now sim.Time) {
	for i := range f.batch {
		e := &f.batch[i]
		o.sendUpTo(e.request, floorTo(e.before, o.core.PageTokens), now)
	}
}

// handOver ends the prompt of r, which leaves, and returns how long after now its KV cache
// has arrived.
func (o *outbox) handOver(r *request, now sim.Time) sim.Time {
	delay := o.sendUpTo(r, r.InputTokens, now)
	o.core.live--
	if delay <= 0 || o.core.isRank {
		o.releaseSent(r)
		return delay
	}
	o.core.pages.cachePages(r)
	r.epoch++
	o.inFlight = append(o.inFlight, sending{r, now + delay})
	return delay
}

func (o *outbox) releaseSent(r *request) {
	o.core.pages.releasePages(r, true)
	o.core.queue.full = false
	r.epoch++
	r.Request = nil
	o.core.spare = append(o.core.spare, r)
}

// releaseArrived releases the pages of those prompts that have arrived by now.
func (o *outbox) releaseArrived(now sim.Time) {
	kept := o.inFlight[:0]
	for _, s := range o.inFlight {
		if s.until <= now {
			o.releaseSent(s.request)
		} else {
			kept = append(kept, s)
		}
	}
	clear(o.inFlight[len(kept):])
	o.inFlight = kept
}

// nextArrival returns when the first of the prompts on their way has arrived, if there are any.
func (o *outbox) nextArrival() (at sim.Time, ok bool) {
	for i, s := range o.inFlight {
		if i == 0 || s.until < at {
			at = s.until
		}
	}
	return at, len(o.inFlight) > 0
}

// waitForArrival makes a pass up to the next time at which pages come back, where nothing else
// can be done. It reports false when none are to come.
func (o *outbox) waitForArrival(p *scheduler.Pass) bool {
	at, ok := o.nextArrival()
	if !ok {
		return false
	}
	p.End = at
	p.Gap = p.End - p.Start
	o.core.lastEnd = p.End
	o.releaseArrived(p.End)
	o.core.describeState(p)
	o.core.check()
	return true
}
