package offline

import "github.com/replay-llm/replay/sim"

// seatEarly puts a request on its decode worker before its KV cache arrives. The worker reads the KV cache after it
// has allocated KV blocks (docs/rules/vllm.md, Prefill and decode workers). The request arrives at that worker now.
func (h *handover) seatEarly(t *ticket) error {
	t.at = seated
	h.arriving = *t.placed.Request
	h.arriving.Arrived = h.c.now
	h.c.seatOn(t.worker, &t.placed, &h.arriving)
	return nil
}

// startPulls begins the transfers in w.pass.Pulls: transfers that w asks for, or for which w receives the blocks.
func (h *handover) startPulls(w *worker) error {
	for _, x := range w.pass.Pulls {
		t := h.find(x.Request)
		if t.handed = max(t.handed, x.Begins); w == t.source {
			t.written = true
			w.handing--
		} else if t.load.Tokens, t.registered = x.Tokens, true; t.at == seated {
			h.c.traffic.asked += float64(h.c.now - t.asked)
		}
		if !t.registered || h.Push && !t.written {
			continue
		}
		if err := h.startPull(t); err != nil {
			return err
		}
		if t.at == landing && t.lands == h.c.now { // the transfer takes no time
			h.c.turnIrregular(w)
		}
	}
	return nil
}

// startPull begins the transfer of a request after both workers have received the passes with its blocks. The decode
// worker has already allocated blocks.
func (h *handover) startPull(t *ticket) error {
	if t.handed > h.c.now {
		t.at, t.order = handing, h.c.nextOrder()
		h.pushHandoff(t, t.handed)
		return nil
	}
	return h.startTransfer(t)
}

// seatAhead puts a request on its decode worker before its prompt is computed. The request still counts once in
// inFlight.
func (h *handover) seatAhead(t *ticket) {
	t.ahead = true
	h.c.seatOn(t.worker, &t.placed, t.placed.Request)
	h.c.inFlight--
}

// offerPush records that the prompt of a request is computed, and reports whether the request is on its decode
// worker. The prefill worker receives the blocks of the request with its next pass.
func (h *handover) offerPush(t *ticket) (ahead bool) {
	if t.ahead {
		t.at, t.asked = seated, h.c.now
		h.c.inFlight++
	}
	t.source.handing++
	t.source.pool.markIdle(t.source)
	return t.ahead
}

// endPull reports the end of the transfer to the workers of the request.
func (h *handover) endPull(t *ticket) error {
	h.c.traffic.transfers++
	h.c.traffic.tokens += t.load.Tokens
	t.worker.noteTransfer(h.c.now, t.id)
	return h.closeTicket(t)
}

// dropPull ends the ticket of a request that has left its decode worker before the end of its transfer.
func (h *handover) dropPull(id sim.RequestID) error {
	t := h.find(id)
	if t == nil || !h.Pull || t.at < seated {
		return nil
	}
	_, err := h.dropWay(id)
	return err
}

// noteTransfer reports the end of a transfer to w, which may be waiting for it if it can run nothing else.
func (w *worker) noteTransfer(now sim.Time, id sim.RequestID) {
	w.core.NoteTransfer(id, now-w.lag)
	if !w.busy && !w.hung {
		w.pool.markIdle(w)
	}
}
