package reference

import "slices"

// swapIn is a request that waits for blocks from host memory.
type swapIn struct {
	id     transferID
	slot   slot      // none once it was cancelled
	pins   []blockID // its first blocks, cached on the GPU and held for it
	blocks []blockID // those after them, read from host memory
	done   bool
}

// boarding is what host memory makes of the head of the line.
type boarding uint8

const (
	boards boarding = iota // it can be scheduled
	parked                 // it left the line until a swap-in is done
	stuck                  // it must wait, for places on the GPU or for its turn
)

// fetch starts to swap in what the head of the line, s, finds in host memory
// after its prefix on the GPU. A request that holds blocks is not looked up
// again: it goes on with what it has.
func (o *offload) fetch(s slot) boarding {
	c, r := o.core, &o.core.requests[s]
	if o.impatient() && c.running.len > 0 {
		return stuck
	}
	if r.state != waiting || r.computed > 0 || o.host.blocks == 0 {
		return boards
	}
	skip := c.cachedPrefix(r) >> c.shift
	if skip == r.full {
		return boards
	}
	o.pinned = o.pinned[:0]
	for i := range skip {
		b := o.found(r, i)
		o.hold(b)
		o.pinned = append(o.pinned, b)
	}
	if n := o.run(r, skip); n > 0 {
		switch o.reserve(n) {
		case parked:
			o.park(s, skip, n)
			return parked
		case stuck:
			o.unpin(o.pinned)
			return stuck
		}
	}
	o.unpin(o.pinned)
	return boards
}

// run is the number of r's blocks from skip on that are in host memory.
func (o *offload) run(r *request, skip int) int {
	for i := skip; i < r.full; i++ {
		b := o.catalog.find(o.name(r, i))
		if b == noBlock || !o.catalog.blocks[b].inHost {
			return i - skip
		}
	}
	return r.full - skip
}

// reserve keeps n places on the GPU for a swap-in. It is stuck when some of
// them must be emptied first; when not even that gets n, swapping in is not
// possible.
func (o *offload) reserve(n int) boarding {
	got := o.take(n)
	emptied := len(o.burst) > 0
	o.core.capture.publish()
	o.send()
	if got == n {
		o.reserved += n
		return parked
	}
	o.pool.free += got
	if emptied {
		return stuck
	}
	return boards
}

// park takes s out of the line while its n blocks after skip are transferred.
func (o *offload) park(s slot, skip, n int) {
	c, r := o.core, &o.core.requests[s]
	in := swapIn{id: o.nextTransfer(), slot: s, pins: slices.Clone(o.pinned)}
	for i := skip; i < skip+n; i++ {
		b := o.catalog.find(o.name(r, i))
		o.host.pin(b)
		in.blocks = append(in.blocks, b)
	}
	o.toGPU.start(o.now, in.id, float64(n)*o.blockBytes)
	o.swapIns = append(o.swapIns, in)
	c.remove(&c.waiting, s)
	t := o.seat(s)
	t.cut(skip)
	t.fetched = append(t.fetched, stretch{skip, skip + n})
}

// finishSwapIns caches what was transferred and puts the requests back at the
// head of the line, in order.
func (o *offload) finishSwapIns(done []transferID) {
	if len(done) == 0 {
		return
	}
	for i := range o.swapIns {
		if in := &o.swapIns[i]; slices.Contains(done, in.id) {
			in.done = true
			o.cache(in)
		}
	}
	for _, in := range slices.Backward(o.swapIns) {
		if in.done && in.slot != none {
			o.core.pushFront(&o.core.waiting, in.slot)
		}
	}
	o.swapIns = slices.DeleteFunc(o.swapIns, func(in swapIn) bool { return in.done })
}

// cache puts the blocks of a swap-in in the places kept for them, held by
// nobody; those that came to the GPU meanwhile only free theirs.
func (o *offload) cache(in *swapIn) {
	k := &o.core.capture
	for _, b := range in.blocks {
		x := &o.catalog.blocks[b]
		if x.onGPU {
			o.pool.free++
			k.publish()
			continue
		}
		x.onGPU = true
		o.idle.insert(b)
		o.pool.inactive++
		o.resident(b, false)
		k.came(x)
	}
	k.publish()
	o.reserved -= len(in.blocks)
	for _, b := range in.blocks {
		o.host.unpin(b)
	}
	o.unpin(in.pins)
}

// unpin lets go of a prefix, first block first.
func (o *offload) unpin(pins []blockID) {
	for _, b := range pins {
		o.letGo(b)
	}
}
