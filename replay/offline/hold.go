package offline

import (
	"github.com/replay-llm/replay/sim"
)

// freeSource releases the KV blocks of a request on its prefill worker, where they are held until
// they have been sent (docs/rules/harness.md, Decode workers that are chosen early). A worker that is
// in a pass hears of it when that ends.
func (h *handover) freeSource(t *ticket) {
	w := t.source
	if !h.HoldPrefill || w == nil || w.core == nil {
		return
	}
	if h.Pull {
		w.noteTransfer(h.c.now, t.id)
	}
	if t.at == arrived {
		h.c.traffic.held += float64(h.c.now - t.asked)
	}
	if h.Pull {
		return
	}
	if !w.busy {
		w.release(t.id)
		return
	}
	w.freed = append(w.freed, t.id)
	if keep := w.countBegun(h.c.now, true); keep < w.pass.Count {
		h.c.trimRun(w, keep)
	}
}

// release releases KV blocks that w, which is between two passes, holds of a request that has left. A worker that has
// left itself has none.
func (w *worker) release(id sim.RequestID) {
	if w.core != nil && w.core.Release(id) && !w.hung {
		w.pool.markIdle(w)
	}
}

// releaseFreed releases the blocks of which w has heard in its pass, which is over.
func (w *worker) releaseFreed() {
	for _, id := range w.freed {
		w.release(id)
	}
	w.freed = w.freed[:0]
}
