package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// A prefill worker transfers the KV cache of a prompt chunk by chunk. The cached part is sent when the pass of the
// first chunk begins, and each chunk when its pass ends. All transfers except the last contain whole pages. The
// worker keeps the pages until the whole KV cache has arrived.

// handsOver reports whether the engine is a prefill worker without windows, drafts, priorities and host memory.
func (o *outbox) handsOver() bool {
	return o.core.Role == scheduler.Prefill && o.core.Window == 0 && o.core.Speculation == nil && !o.core.Priorities.On && o.core.tiers == nil
}

// transferDelay returns the transfer time of the whole KV cache of r to a decode worker.
func (o *outbox) transferDelay(r *sim.Request) sim.Time {
	if o.core.Role != scheduler.Prefill {
		return 0
	}
	return o.core.Transfer.Delay(r.InputTokens)
}

// outbox is the KV caches that a prefill worker keeps until their transfers end.
type outbox struct {
	core     *Core
	inFlight []sending
}

// sending is a prompt with pages in transfer.
type sending struct {
	*request
	until sim.Time
}

// sendUpTo sends the first tokens of r that were not sent yet. The transfer starts at now, after earlier transfers of
// r. sendUpTo returns the time from now until everything has arrived.
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

// sendCached sends the cached parts of the prompts of a batch, starting at now.
func (o *outbox) sendCached(f *flight, now sim.Time) {
	for i := range f.batch {
		e := &f.batch[i]
		o.sendUpTo(e.request, floorTo(e.before, o.core.PageTokens), now)
	}
}

// handOver removes r, which has computed its whole prompt, and returns the time from now until its KV cache has
// arrived.
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

// releaseArrived releases the pages of prompts with transfers that have ended by now.
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

// nextArrival returns the earliest end of a transfer; ok is false if there is none.
func (o *outbox) nextArrival() (at sim.Time, ok bool) {
	for i, s := range o.inFlight {
		if i == 0 || s.until < at {
			at = s.until
		}
	}
	return at, len(o.inFlight) > 0
}

// waitForArrival makes p a pass until the next pages are released, if no other work can be done. waitForArrival
// returns false if no transfer is in progress.
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
