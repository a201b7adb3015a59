package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// remote is vLLM's NixlConnector in the scheduler: decode workers read KV caches from prefill workers, which keep the blocks until then
// (docs/rules/vllm.md, "Prefill and decode workers").
type remote struct {
	read []reading // KV caches that were read, and of which no pass has reported it, in order
}

// reading is a KV cache that was read as a whole at an instant.
type reading struct {
	id sim.RequestID
	at sim.Time
}

// NoteTransfer notes that a KV cache was read as a whole at an instant.
func (c *Core) NoteTransfer(id sim.RequestID, at sim.Time) {
	k := c.conn.remote
	i := len(k.read)
	for i > 0 && k.read[i-1].at == at && k.read[i-1].id > id {
		i--
	}
	k.read = slices.Insert(k.read, i, reading{id, at})
}

// takeRead appends the KV caches that were read by an instant to all, for a pass that reports them.
func (k *remote) takeRead(at sim.Time, all []sim.RequestID) []sim.RequestID {
	n := 0
	for n < len(k.read) && k.read[n].at <= at {
		all = append(all, k.read[n].id)
		n++
	}
	k.read = slices.Delete(k.read, 0, n)
	return all
}

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
		k.device.releaseBlocks(&c.requests[s])
		k.device.Forget(s)
		c.unused = append(c.unused, s)
	} else if i := slices.IndexFunc(k.aside, func(s slot) bool { return c.requests[s].id == id }); i >= 0 {
		c.requests[k.aside[i]].offload.Arrived = true
	} else {
		return
	}
	k.Pending--
	c.stuck = false
}

// waitsForOthers reports whether the plan that was made found nothing to compute, and nothing changes before a KV cache was read or a
// request comes.
func (k *connector) waitsForOthers(p *scheduler.Pass) bool {
	c := k.core
	return k.remote != nil && !k.executed && k.Pending > 0 && p.Preempted == 0 && len(k.remote.read)+len(c.next.read)+len(c.after.read)+len(k.fenced) == 0 &&
		(k.queued < 2 || !c.next.ran)
}
