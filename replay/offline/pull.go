package offline

import "github.com/replay-llm/replay/sim"

// seatEarly puts a request on its decode worker, which reads the KV cache when it has KV blocks for it
// (docs/rules/vllm.md, Prefill and decode workers).
func (h *handover) seatEarly(t *ticket) error {
	t.at = seated
	h.c.seatOn(t.worker, &t.placed, t.placed.Request)
	return nil
}

// startPulls begins the transfers that w asks for with its pass.
func (h *handover) startPulls(w *worker) error {
	for _, x := range w.pass.Pulls {
		t := h.find(x.Request)
		h.c.traffic.asked += float64(h.c.now - t.asked)
		t.load.Tokens = x.Tokens
		if err := h.startTransfer(t); err != nil {
			return err
		}
		if t.at == landing && t.lands == h.c.now { // it takes no time
			h.c.turnIrregular(w)
		}
	}
	return nil
}

// endPull lets the two workers of a request know that its KV cache was read.
func (h *handover) endPull(t *ticket) error {
	h.c.traffic.transfers++
	h.c.traffic.tokens += t.load.Tokens
	t.worker.noteTransfer(h.c.now, t.id)
	return h.closeTicket(t)
}

// dropPull ends the way of a request that has left its decode worker before its KV cache was read.
func (h *handover) dropPull(id sim.RequestID) error {
	t := h.find(id)
	if t == nil || !h.Pull || t.at < seated {
		return nil
	}
	_, err := h.dropWay(id)
	return err
}

// noteTransfer lets w know that a KV cache was read, which it waits for in case it can run nothing else.
func (w *worker) noteTransfer(now sim.Time, id sim.RequestID) {
	w.core.NoteTransfer(id, now-w.lag)
	if !w.busy && !w.hung {
		w.pool.markIdle(w)
	}
}
