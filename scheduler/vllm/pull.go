package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// NoteTransfer records the instant at which a KV cache was read completely.
func (c *Core) NoteTransfer(id sim.RequestID, at sim.Time) { c.conn.remote.Note(id, at) }

// pulls reports whether the KV cache of r's prompt is to be read from a prefill worker.
func (k *connector) pulls(r *request) bool {
	return k.remote != nil && k.core.cfg.Role == scheduler.Decode && !r.local
}

// isPulled reports whether the connector reads, or has read, the blocks of r from a prefill worker.
func (r *request) isPulled() bool { return r.local && r.offload.From == r.offload.To }

// awaitTransfer counts a pending transfer between workers, and endTransfer a transfer that has ended.
func (k *connector) awaitTransfer() { k.Pending, k.away = k.Pending+1, k.away+1 }
func (k *connector) endTransfer()   { k.Pending, k.away = k.Pending-1, k.away-1 }

// pull starts to read the prompt of r after its hits cached blocks, if there is room for it.
func (k *connector) pull(r *request, hits int) answer {
	c, f := k.core, r.offload
	end := (r.input + c.mask) >> c.shift
	if !k.takeRoom(r, hits, end) {
		return refused
	}
	k.Out.Pulls = append(k.Out.Pulls, scheduler.Pull{Request: r.id, Tokens: (end - hits) << c.shift, Begins: unknown})
	k.awaitTransfer()
	if k.Memory.Ranked { // the connector to host memory also tracks these blocks
		k.admitted = append(k.admitted, r.slot)
	}
	if k.simple != nil {
		k.simple.Unpin(k.simple.User(r.slot))
	}
	f.Prefilling, f.Arrived, f.Lost, f.From, f.To = true, false, false, hits, hits
	r.computed, r.state, r.local = r.input, loading, true
	return skipped
}

// unknown is the start of a pull until its plan is closed. A step may make two plans.
const unknown = sim.Time(-1)

// beginPulls sets the start of the pulls of the plan that is closed.
func (k *connector) beginPulls(at sim.Time) {
	for i := range k.Out.Pulls {
		if x := &k.Out.Pulls[i]; x.Begins == unknown {
			x.Begins = at
		}
	}
}

// dropToken drops the token of s that a running pass samples, because s is about to lose its blocks.
func (k *connector) dropToken(s slot) {
	if k.queued == 0 {
		return
	}
	for i := range k.core.next.shares {
		if x := &k.core.next.shares[i]; x.slot == s && x.samples && !x.dropped {
			x.samples = false
			k.core.requests[s].target--
		}
	}
}

// keepSent records that r has left with its last token. The blocks of r are kept until they have been read.
func (k *connector) keepSent(r *request) {
	k.leave(r)
	k.End(r.offload)
	r.offload = nil
	k.awaitTransfer()
}

// finishTransfers ends the transfers that f reports. Transfers that are not known to have ended yet are ended in the
// next step.
func (k *connector) finishTransfers(f *flight) {
	if k.remote == nil {
		return
	}
	k.finishEnded(k.remote.Take(min(f.taken, k.begun)))
	if f.taken > k.begun {
		k.unread = f.taken
	}
}

// finishLate ends the transfers that ended since the start of the previous pass and that this pass reports.
func (k *connector) finishLate(now sim.Time) {
	if k.begun = now; k.unread > 0 {
		k.finishEnded(k.remote.TakeMore(k.unread))
		k.unread = 0
	}
}

func (k *connector) finishEnded(all []sim.RequestID) {
	for _, id := range all {
		k.finishTransfer(id)
	}
}

// finishTransfer ends the read of a KV cache, unless its request has left.
func (k *connector) finishTransfer(id sim.RequestID) {
	c := k.core
	if i := slices.IndexFunc(c.kept, func(s slot) bool { return c.requests[s].id == id }); i >= 0 {
		s := c.kept[i]
		c.kept = slices.Delete(c.kept, i, i+1)
		k.blocks.releaseBlocks(&c.requests[s])
		k.blocks.Forget(s)
		c.unused = append(c.unused, s)
	} else if i := slices.IndexFunc(k.aside, func(s slot) bool { return c.requests[s].id == id }); i >= 0 {
		c.requests[k.aside[i]].offload.Arrived = true
	} else {
		return
	}
	k.endTransfer()
	c.stuck = false
}

// forgetTransfer drops the report of r's transfer, because r leaves during the load and its id may be reused.
func (k *connector) forgetTransfer(r *request) {
	if r.state != loading || !r.isPulled() {
		return
	}
	if !r.offload.Arrived {
		k.endTransfer()
	}
	k.remote.Forget(r.id)
}

// waitsForOthers reports whether the plan is empty, and can change only after a read of a KV cache or an arrival.
func (k *connector) waitsForOthers(p *scheduler.Pass) bool {
	c := k.core
	return k.remote != nil && !k.remote.Any() && !k.executed && k.away > 0 && k.away == k.Pending && p.Preempted == 0 && len(k.fenced) == 0 &&
		(k.queued < 2 || !c.next.ran)
}
