package reference

import "fmt"

// check holds the accounts of both memories against each other.
func (o *offload) check() {
	o.checkHolders()
	o.checkPlaces()
	o.checkHost()
	o.idle.check("GPU")
	o.host.idle.check("host")
}

// checkHolders counts who holds what on the GPU.
func (o *offload) checkHolders() {
	c := o.core
	holders := make([]int32, len(o.catalog.blocks))
	for _, q := range []queue{c.waiting, c.running} {
		for s := q.front; s != none; s = c.requests[s].next {
			r, t := &c.requests[s], o.seat(s)
			want := min(c.held(r), r.full)
			if r.state == steady {
				want = r.full
			}
			if len(t.held) != want {
				panic(fmt.Sprintf("request %d, %v: %d full blocks held, want %d", r.id, r.state, len(t.held), want))
			}
			for i, b := range t.held {
				if k := &o.catalog.blocks[b]; k.name != o.name(r, i) {
					panic(fmt.Sprintf("request %d: block %d is %v, want %v", r.id, i, k.name, o.name(r, i)))
				}
				holders[b]++
			}
		}
	}
	for _, in := range o.swapIns {
		for _, b := range in.pins {
			holders[b]++
		}
	}
	for b := range o.catalog.blocks {
		if k := &o.catalog.blocks[b]; k.needed() && k.holders != holders[b] {
			panic(fmt.Sprintf("block %v: %d holders, want %d", k.name, k.holders, holders[b]))
		}
	}
}

// checkPlaces counts the places on the GPU.
func (o *offload) checkPlaces() {
	held := o.core.partials()
	for b := range o.catalog.blocks {
		k := &o.catalog.blocks[b]
		if k.holders > 0 {
			held++
		}
		if k.onGPU && k.parent != noBlock && !o.catalog.blocks[k.parent].onGPU {
			panic(fmt.Sprintf("block %v: on the GPU without the one before it", k.name))
		}
	}
	moving := len(o.burst)
	for _, list := range [][]batch{o.batches, o.queue} {
		for _, b := range list {
			moving += len(b.blocks)
		}
	}
	if moving != o.moving || len(o.burst) > 0 {
		panic(fmt.Sprintf("offload: %d blocks on their way and %d not sent, want %d and 0", moving, len(o.burst), o.moving))
	}
	reserved := 0
	for _, in := range o.swapIns {
		reserved += len(in.blocks)
	}
	p := o.pool
	if p.free < 0 || o.idle.len != p.inactive || reserved != o.reserved ||
		p.free+p.inactive+held+moving+reserved != p.blocks {
		panic(fmt.Sprintf("block pool: %d free + %d inactive + %d held + %d moving out + %d reserved != %d total (%d idle, %d reserved counted)",
			p.free, p.inactive, held, moving, o.reserved, p.blocks, o.idle.len, reserved))
	}
}

// checkHost counts the blocks in host memory.
func (o *offload) checkHost() {
	resident, read := 0, 0
	for b := range o.catalog.blocks {
		k := &o.catalog.blocks[b]
		if k.inHost {
			resident++
		}
		if k.readers > 0 {
			read++
		}
	}
	h := &o.host
	if resident != h.used || h.used > h.blocks || h.idle.len+read != resident {
		panic(fmt.Sprintf("host pool: %d idle + %d read != %d resident of %d (%d counted)",
			h.idle.len, read, h.used, h.blocks, resident))
	}
}

// check counts children and leaves.
func (l *lineage) check(where string) {
	children := make([]int32, len(l.places))
	held := 0
	listed := make(map[leaf]bool, len(l.leaves))
	for _, f := range l.leaves {
		listed[f] = true
	}
	for b := range l.places {
		p := &l.places[b]
		if p.linked {
			children[l.catalog.blocks[b].parent]++
		}
		if p.held {
			held++
		}
		if p.held && p.children == 0 && !listed[leaf{Key: p.stamp, Tie: blockID(b)}] {
			panic(fmt.Sprintf("%s: leaf %v is not listed", where, l.catalog.blocks[b].name))
		}
	}
	for b := range l.places {
		if p := &l.places[b]; p.children != children[b] {
			panic(fmt.Sprintf("%s: place %d has %d children, want %d", where, b, p.children, children[b]))
		}
	}
	if held != l.len {
		panic(fmt.Sprintf("%s: %d blocks, want %d", where, held, l.len))
	}
}
