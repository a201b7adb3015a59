package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// NoteTransfer notes that a KV cache was read as a whole at an instant.
func (c *Core) NoteTransfer(id sim.RequestID, at sim.Time) { c.conn.remote.Note(id, at) }

// pulls reports whether the prompt of r is to be read from a prefill worker.
func (k *connector) pulls(r *request) bool {
	return k.remote != nil && k.core.cfg.Role == scheduler.Decode && !r.local
}

// pull begins to read the prompt of r after its cached blocks (hits), if there is room for it.
func (k *connector) pull(r *request, hits int) answer {
	c, f := k.core, r.offload
	end := (r.input + c.mask) >> c.shift
	if !k.takeRoom(r, hits, end) {
		return refused
	}
	k.Out.Pulls = append(k.Out.Pulls, scheduler.Pull{Request: r.id, Tokens: (end - hits) << c.shift})
	k.Pending++
	f.Prefilling, f.Arrived, f.Lost, f.From, f.To = true, false, false, hits, hits
	r.computed, r.state, r.local = r.input, loading, true
	return skipped
}

// dropToken drops the token of s that a running pass samples: s is about to lose its blocks.
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

// keepSent notes that r has left with its last token, and that its blocks stay until they have been read.
func (k *connector) keepSent(r *request) {
	k.End(r.offload)
	r.offload = nil
	k.Pending++
}

// finishTransfer ends the transfer of a KV cache that has been read, if it is still there.
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
	k.Pending--
	c.stuck = false
}

// forgetTransfer drops what is to be reported of the transfer of r, which leaves while it loads: another request may come with its id.
func (k *connector) forgetTransfer(r *request) {
	if k.remote == nil || r.state != loading {
		return
	}
	if !r.offload.Arrived {
		k.Pending--
	}
	k.remote.Forget(r.id)
	for _, f := range [...]*flight{k.core.next, k.core.after} {
		f.read = slices.DeleteFunc(f.read, func(id sim.RequestID) bool { return id == r.id })
	}
}

// waitsForOthers reports whether the plan that was made found nothing to compute, and nothing changes before a KV cache was read or a request comes.
func (k *connector) waitsForOthers(p *scheduler.Pass) bool {
	c := k.core
	return k.remote != nil && !k.remote.Any() && !k.executed && k.Pending > 0 && p.Preempted == 0 && len(c.next.read)+len(c.after.read)+len(k.fenced) == 0 &&
		(k.queued < 2 || !c.next.ran)
}
