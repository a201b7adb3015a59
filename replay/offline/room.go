package offline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/replay/collector"
)

// waitForRoom queues the transfer of a request until its decode worker has room (docs/rules/harness.md "Decode workers
// that are chosen early"). The KV cache is on its prefill worker.
func (h *handover) waitForRoom(t *ticket) error {
	if h.c.clients.hasHungUp(t.id) {
		return h.c.clients.endAttempt(&leaver{id: t.id, pool: h.c.pools[1], worker: collector.Nowhere}, collector.Lost, 0)
	}
	w := t.worker
	t.at = asking
	t.needs, t.blocks, t.seats = h.c.pools[1].RoomFor(t.placed.Request)
	i, _ := slices.BinarySearchFunc(w.asking, t, func(a, b *ticket) int {
		return cmp.Or(cmp.Compare(a.asked, b.asked), cmp.Compare(a.id, b.id))
	})
	w.asking = slices.Insert(w.asking, i, t)
	h.asking++
	h.c.transit++
	if w.busy && w.pass.Count > 1 {
		h.c.cutRun(w, w.countBegun(h.c.now, h.c.instant.irregular))
	}
	return nil
}

// leaveLine removes a request from the queue for room.
func (h *handover) leaveLine(t *ticket) {
	w := t.worker
	i := slices.Index(w.asking, t)
	w.asking = slices.Delete(w.asking, i, i+1)
	h.asking--
	h.c.transit--
}

// admitTransfers begins the queued transfers for which decode workers have room, and reports whether there were any.
// A worker admits transfers between two passes only.
func (h *handover) admitTransfers() (changed bool, err error) {
	if h.asking == 0 {
		return false, nil
	}
	for _, w := range h.c.pools[1].workers {
		for len(w.asking) > 0 && !w.busy && !w.hung && w.hasRoom(w.asking[0]) {
			t := w.asking[0]
			h.leaveLine(t)
			w.promised += t.blocks
			w.coming++
			t.given, changed = true, true
			h.c.traffic.asked += float64(h.c.now - t.asked)
			if err := h.startTransfer(t); err != nil {
				return true, err
			}
		}
	}
	return changed, nil
}

// hasRoom reports whether w has a seat for t and the KV blocks that t needs, without reserved blocks. A worker with
// nothing to do has room for any transfer.
func (w *worker) hasRoom(t *ticket) bool {
	if w.coming == 0 && w.core.Load() == 0 {
		return true
	}
	if t.seats > 0 && w.coming+w.core.Load() >= t.seats {
		return false
	}
	return w.promised+t.needs <= w.core.Room()
}

// stalledLine returns the error of a replay that stalls with transfers queued for room.
func (h *handover) stalledLine() error {
	all := h.c.pools[1].workers
	w := all[slices.IndexFunc(all, func(w *worker) bool { return len(w.asking) > 0 })]
	return fmt.Errorf("stalled at %v ms: %d KV caches wait for room on decode worker %d and nothing is to come, the first is that of %s",
		float64(h.c.now), len(w.asking), w.id, h.placeOf(w.asking[0]))
}

// stalledPush returns the error of a replay in which the pools wait for each other's KV blocks, nil if they do not.
// Each pool then holds blocks for prompts for which the other pool has none.
func (h *handover) stalledPush() error {
	var kept, reserved []*ticket
	for _, t := range h.tickets {
		switch {
		case t == nil || !h.Push:
		case t.at == seated && !t.registered:
			kept = append(kept, t)
		case t.at < seated && t.registered:
			reserved = append(reserved, t)
		}
	}
	if len(kept) == 0 || len(reserved) == 0 {
		return nil
	}
	return fmt.Errorf("stalled at %v ms: prefill workers hold KV blocks of computed prompts that decode workers have no blocks for (%d, the first at %s), "+
		"and decode workers hold blocks for prompts that prefill workers have no blocks for (%d, the first at %s)",
		float64(h.c.now), len(kept), h.placeOf(kept[0]), len(reserved), h.placeOf(reserved[0]))
}

// placeOf returns the position of the request of t in its trace.
func (h *handover) placeOf(t *ticket) string { return h.c.Place(h.c.Requests.Get(int(t.id))) }

// checkNothingLeft returns an error if requests are left after the last event.
func (c *cluster) checkNothingLeft() error {
	if c.isIdle() {
		return nil
	}
	for _, p := range c.pools {
		if waiting := p.Router.Waiting(nil); len(waiting) > 0 {
			return fmt.Errorf("stalled at %v ms: the router holds %d requests and nothing is to come, the first is %s",
				float64(c.now), len(waiting), c.Place(c.Requests.Get(int(waiting[0]))))
		}
	}
	if c.handover.asking > 0 {
		return c.handover.stalledLine()
	}
	if err := c.handover.stalledPush(); err != nil {
		return err
	}
	return fmt.Errorf("stalled at %v ms: %d requests in flight and nothing is to come", float64(c.now), c.countInFlight())
}
