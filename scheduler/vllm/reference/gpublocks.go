package reference

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
)

// use gives s the blocks from..to-1 of its list and returns how many it got.
// Cached ones stand first: a block is cached only after those before it.
func (o *offload) use(s slot, from, to int) int {
	c, r := o.core, &o.core.requests[s]
	t := o.seat(s)
	c.capture.order(c, r, from)
	at, full := from, min(to, r.full)
	for ; at < full; at++ {
		b := o.found(r, at)
		if b == noBlock {
			break
		}
		o.hold(b)
		t.held = append(t.held, b)
	}
	cached := at
	for n := o.take(to - at); n > 0; n-- {
		if at < full {
			t.held = append(t.held, o.store(r, at, t.held))
		}
		at++
	}
	if cached > from {
		c.capture.hit(c, r, cached-1)
	}
	c.capture.stored(c, r, cached, min(at, full))
	c.capture.publish()
	o.send()
	return at - from
}

// take gets up to n places on the GPU, free ones first. For the others it
// evicts cached blocks; the place of one that host memory has already, or is
// being sent, serves at once.
func (o *offload) take(n int) int {
	got := min(n, o.pool.free)
	o.pool.free -= got
	for range n - got {
		b := o.idle.evict()
		if b == noBlock {
			break
		}
		k := &o.catalog.blocks[b]
		k.onGPU = false
		o.pool.inactive--
		o.resident(b, true)
		o.core.capture.left(k)
		if o.host.wants(b) {
			k.sending = true
			o.moving++
			o.burst = append(o.burst, b)
			continue
		}
		got++
		o.catalog.drop(b)
	}
	return got
}

// store puts block i of r, held by r, in a place on the GPU that was taken.
// before are the blocks that r holds.
func (o *offload) store(r *request, i int, before []blockID) blockID {
	b := o.know(r, i, before)
	k := &o.catalog.blocks[b]
	if invariant.Enabled && (k.onGPU || k.parent != noBlock && !o.catalog.blocks[k.parent].onGPU) {
		panic(fmt.Sprintf("block %v stored: on the GPU %v, want not, and the one before it there", k.name, k.onGPU))
	}
	k.onGPU, k.holders = true, 1
	o.resident(b, false)
	return b
}

// know is block i of r in the catalog, after those before it.
func (o *offload) know(r *request, i int, before []blockID) blockID {
	parent := noBlock
	if i > 0 && o.core.cfg.PrefixCaching {
		parent = before[i-1]
	}
	b, isNew := o.catalog.add(o.name(r, i), parent)
	if isNew {
		o.catalog.blocks[b].hashes = o.core.capture.hashes(o.core, r, i)
	}
	return b
}

// hold adds a holder to b, which is on the GPU.
func (o *offload) hold(b blockID) {
	k := &o.catalog.blocks[b]
	if k.holders == 0 {
		o.idle.remove(b)
		o.pool.inactive--
	}
	k.holders++
}

// letGo takes a holder from b.
func (o *offload) letGo(b blockID) {
	k := &o.catalog.blocks[b]
	if k.holders--; k.holders == 0 {
		o.idle.insert(b)
		o.pool.inactive++
	}
}

// promote enters the last full block of s, until now its partial one.
func (o *offload) promote(s slot) {
	t := o.seat(s)
	r := &o.core.requests[s]
	t.held = append(t.held, o.store(r, r.full-1, t.held))
}

// release gives back every block s holds, last to first.
func (o *offload) release(s slot) {
	t := o.seat(s)
	if r := &o.core.requests[s]; o.core.held(r) > r.full {
		o.pool.free++
	}
	for i := len(t.held) - 1; i >= 0; i-- {
		o.letGo(t.held[i])
	}
	t.held = t.held[:0]
}

// prefix is the number of r's first blocks that are cached on the GPU.
func (o *offload) prefix(r *request) int {
	for i := range r.full {
		if o.found(r, i) == noBlock {
			return i
		}
	}
	return r.full
}
