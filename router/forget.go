package router

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Forget removes the cache of a worker from the index, its reports, and the delayed signals of both. Forget is called
// after the worker has died or the router has lost its index. The index follows later blocks of the worker if it
// knows their parents.
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

// Holds reports whether the router knows that a request is placed on a worker. A restarted router does not know
// earlier placements.
func (d *Dispatcher) Holds(id sim.RequestID) bool {
	_, ok := d.findRecord(id)
	return ok
}

func (r residency) forget(w sim.WorkerID) { r.dropWorker(w) }

func (x hashIndex) forget(sim.WorkerID) {} // the index is kept elsewhere

// forget removes all blocks of a worker. Later events about children of removed blocks are ignored without an error.
func (x *treeIndex) forget(w sim.WorkerID) {
	x.index.Clear(w)
	x.lossy = true
}

// dropWorker removes a worker from all nodes.
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

// dropParts removes the parts of a node that a worker holds.
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

// ignoreLost returns err, except an IndexError of a lossy index.
func (x *treeIndex) ignoreLost(err error) error {
	if _, ok := err.(*IndexError); ok && x.lossy {
		return nil
	}
	return err
}
