package offline

import (
	"github.com/replay-llm/replay/sim"
)

// freeSource releases the KV blocks of a request on its prefill worker after their transfer (docs/rules/harness.md,
// Decode workers that are chosen early). A worker in a pass releases the blocks at the end of the pass.
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

// release releases the KV blocks that w holds for a request that has left. release must be called between two passes.
// A worker that has left the cluster holds no blocks.
func (w *worker) release(id sim.RequestID) {
	if w.core != nil && w.core.Release(id) && !w.hung {
		w.pool.markIdle(w)
	}
}

// releaseFreed releases the blocks that were freed during the pass that has just ended.
func (w *worker) releaseFreed() {
	for _, id := range w.freed {
		w.release(id)
	}
	w.freed = w.freed[:0]
}
