package router

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Forget takes the cache of a worker out of the index, and what it has reported, with what is on its way of either: it
// has died, or the router has lost its index. Its later blocks are followed again, if the index can place them.
func (d *Dispatcher) Forget(w sim.WorkerID) {
	if int(w) >= d.workers.known {
		return
	}
	if d.index != nil {
		d.index.forget(w)
	}
	if d.late != nil {
		d.late.forget(w)
	}
	for _, h := range d.queue.heap {
		for i := range h.Value.overlap {
			if c := &h.Value.overlap[i]; c.worker == w {
				c.blocks = 0
			}
		}
	}
	if d.kept.Metrics {
		d.meters.reports[w], d.meters.read[w], d.meters.idle[w], d.seen.Metrics[w] = nil, [3]int32{}, true, Metrics{}
	}
}

// Holds reports whether a request is placed on a worker as far as the router knows. One
// that has been restarted knows nothing of those before.
func (d *Dispatcher) Holds(id sim.RequestID) bool {
	_, ok := d.findRecord(id)
	return ok
}

func (r residency) forget(w sim.WorkerID) { r.dropWorker(w) }

func (x hashIndex) forget(sim.WorkerID) {} // kept elsewhere

// forget takes a worker out. Blocks below blocks that it has announced before are
// unknown from then on, which is no error.
func (x *treeIndex) forget(w sim.WorkerID) {
	x.index.Clear(w)
	x.lossy = true
}

// dropWorker ends everything that a worker holds.
func (h *holdings) dropWorker(w sim.WorkerID) {
	if int(w) >= 64*h.words {
		return
	}
	for i, p := range h.pages {
		if p == nil {
			continue
		}
		for n := range p.nodes {
			at := &p.nodes[n]
			if h.sets.remove(&at.full, w) {
				p.live--
			}
			h.dropParts(p, at, w)
		}
		if p.live == 0 {
			h.pages[i] = nil
			h.unused = append(h.unused, p)
		}
	}
}

// dropParts drops the parts of a node that a worker holds.
func (h *holdings) dropParts(p *page, at *holders, w sim.WorkerID) {
	if at.part == int32(w)+1 {
		at.part, at.blocks = 0, 0
		p.live--
	}
	if at.part >= 0 {
		return
	}
	list := h.lists[-at.part]
	left := slices.DeleteFunc(list, func(x part) bool { return x.worker == w })
	p.live -= int32(len(list) - len(left))
	h.lists[-at.part] = left
	h.endList(at)
}

// ignoreLost drops complaints about blocks that a lossy index cannot place.
func (x *treeIndex) ignoreLost(err error) error {
	if _, ok := err.(*IndexError); ok && x.lossy {
		return nil
	}
	return err
}
