package offline

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline/links"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// handover transfers requests from prefill to decode workers, if the decode worker is chosen before the KV cache has
// arrived (docs/rules/harness.md, Decode workers that are chosen early).
type handover struct {
	c           *cluster
	*engines.PD // nil: decode workers are chosen after the KV cache has arrived
	choose      *harness.Chooser
	link        scheduler.Transfer // the time of a transfer that shares no link
	links       *links.Network     // nil: links are not shared
	tickets     []*ticket          // by request; nil: not between the pools
	spare       []*ticket
	asking      int         // tickets that wait for room
	arriving    sim.Request // scratch of seatEarly
}

// ticket is the progress of a request towards its decode worker.
type ticket struct {
	id     sim.RequestID
	at     stop
	worker *worker // the chosen decode worker; nil: none
	source *worker // the prefill worker that has the KV cache of the request
	placed router.Placement
	delay  sim.Time // delay of the transfer, if the transfer does not share the link
	needs  int      // free blocks that the decode worker needs before it admits the transfer
	blocks int      // blocks of needs that the decode worker reserves for the transfer
	seats  int      // limit of requests on and in transfer to the decode worker; 0: no limit
	given  bool     // the decode worker has reserved room for it
	asked  sim.Time // when the KV cache was ready to be sent
	began  sim.Time // start of the transfer, or of its wait for a link
	lands  sim.Time // when the KV cache arrives, while landing
	order  order    // order of the events of the transfer
	load   links.Transfer

	ahead      bool     // in push mode: the request was on its decode worker before the prompt was computed
	registered bool     // the decode worker has allocated blocks for it
	written    bool     // the prefill worker has received a pass with its blocks
	handed     sim.Time // when both workers can begin the transfer
}

// stop is the stage of a request between the pools.
type stop uint8

const (
	computing stop = iota // in prefill
	computed              // the prompt is computed, no decode worker is chosen
	asking                // the request waits for room on its decode worker
	seated                // the request is on its decode worker, before the transfer begins
	handing               // the request waits for the pass that gives a worker its blocks
	sending               // in transfer on the links
	landing               // off the links, not yet at the decode worker
	arrived               // at the decode worker
)

// planHandover prepares the transfers between the pools.
func (h *handover) planHandover() (err error) {
	if !h.c.PD.PicksEarly() {
		return nil
	}
	h.PD, h.c.traffic = h.c.PD, new(traffic)
	h.link = h.c.pools[0].Engine.Transfer()
	if h.SharesLinks() {
		inf := math.Inf(1)
		nic, core := inf, inf
		if h.NIC > 0 {
			nic = h.NIC
		}
		if h.Core > 0 {
			core = h.Core
		}
		own := min(nic, core)
		if h.link.GBPerSecond > 0 {
			own = min(own, h.link.GBPerSecond)
		}
		h.link.GBPerSecond = own
		h.links = links.New(h.Sharing == engines.ShareInTurns, nic/own, core/own)
	}
	h.choose, err = h.c.NewChooser([]*harness.Pool{h.c.pools[0].Pool, h.c.pools[1].Pool})
	return err
}

// find returns the ticket of a request, nil if it has none.
func (h *handover) find(id sim.RequestID) *ticket {
	if int(id) >= len(h.tickets) {
		return nil
	}
	return h.tickets[id]
}

// open returns the ticket of a request, and creates it if the request has none.
func (h *handover) open(id sim.RequestID) *ticket {
	for int(id) >= len(h.tickets) {
		h.tickets = append(h.tickets, nil)
	}
	t := h.tickets[id]
	if t != nil {
		return t
	}
	if k := len(h.spare); k > 0 {
		t, h.spare = h.spare[k-1], h.spare[:k-1]
	} else {
		t = new(ticket)
	}
	t.id, h.tickets[id] = id, t
	return t
}

// enterFirst brings a request to the router of the first pool that it enters.
func (c *cluster) enterFirst(q *sim.Request) error {
	if h := &c.handover; h.PD != nil {
		q.Local = false
		if h.DecodeChosen == engines.BeforePrefill {
			return c.enterDecode(q.ID)
		}
	}
	return c.enterPool(c.pools[0], q)
}

// bindDecode assigns a decode worker to a request before its KV cache has arrived. bindDecode reports false if the
// decode worker computes the prompt itself, now.
func (h *handover) bindDecode(w *worker, placed *router.Placement) (bound bool, err error) {
	q := placed.Request
	if h.find(q.ID) == nil && h.choose != nil && h.choose.ChoosePool(h.c.now, placed, h.c.transit).Index == 1 {
		q.Local = true
		h.c.traffic.local++
		h.c.Collector.PlacePrefill(q.ID, collector.Nowhere) // an earlier attempt may have set a prefill worker
		return false, nil
	}
	t := h.open(q.ID)
	t.worker, t.placed = w, *placed
	w.ties++
	if t.at == computed {
		return true, h.beginTransfer(t)
	}
	h.c.pools[1].Router.ComesComputed(q.ID)
	h.c.pools[0].entered++
	if h.Push {
		h.seatAhead(t)
	}
	return true, h.c.enterPool(h.c.pools[0], q)
}

// sendToDecode sends the KV cache of a computed prompt to the decode worker.
func (h *handover) sendToDecode(id sim.RequestID, delay sim.Time) error {
	t := h.open(id)
	t.source = h.c.pools[0].workers[h.c.Collector.Record(id).PrefillWorker]
	t.source.ties++
	if t.delay = delay; h.Push && h.offerPush(t) {
		return nil
	}
	if t.worker != nil {
		return h.beginTransfer(t)
	}
	t.at = computed
	return h.c.enterDecode(id)
}

// beginTransfer starts the transfer of a KV cache to the chosen decode worker, or lets it wait for room on that
// worker.
func (h *handover) beginTransfer(t *ticket) error {
	t.asked = h.c.now
	if h.Pull {
		return h.seatEarly(t)
	}
	if h.DecodeAdmission {
		return h.waitForRoom(t)
	}
	return h.startTransfer(t)
}

// startTransfer starts the transfer of a KV cache now.
func (h *handover) startTransfer(t *ticket) error {
	q := t.placed.Request
	tokens := q.InputTokens
	if h.Pull || h.Missing {
		if h.Pull { // the decode worker has reported how many tokens it lacks
			tokens = t.load.Tokens
		} else {
			tokens -= min(tokens, int(t.placed.Overlap)*h.c.pools[1].Engine.BlockTokens)
		}
		t.delay = h.link.Delay(tokens)
		if h.links == nil && h.c.LinkShare != 0 {
			t.delay = sim.Time(float64(t.delay) / h.c.LinkShare)
		}
	}
	t.began, t.order = h.c.now, h.c.nextOrder()
	t.load.Tokens = tokens
	if h.links == nil {
		return h.land(t, h.c.now+t.delay)
	}
	alone := scheduler.Transfer{GBPerSecond: h.link.GBPerSecond, BytesPerToken: h.link.BytesPerToken}
	t.delay = h.link.Delay(tokens)
	if t.delay <= 0 {
		return h.land(t, h.c.now)
	}
	t.at = sending
	t.load = links.Transfer{ID: q.ID, From: t.source.id, To: t.worker.id, Tokens: tokens, Alone: alone.Delay(tokens), Latency: h.link.Latency}
	h.c.transit++
	h.links.Ask(&t.load, h.c.now)
	h.updateLinks()
	return nil
}

// land plans the arrival, at an instant, of a KV cache that is off the links.
func (h *handover) land(t *ticket, at sim.Time) error {
	if at <= h.c.now && !h.Pull {
		return h.arrive(t)
	}
	h.c.transit++
	t.at, t.lands = landing, at
	h.pushHandoff(t, at)
	return nil
}

// pushHandoff adds an event for the transfer of a request.
func (h *handover) pushHandoff(t *ticket, at sim.Time) {
	h.c.pending++
	h.c.events.push(event{at: at, order: t.order, kind: handoffDone, request: t.placed.Request.ID})
}

// updateLinks computes the speeds of all transfers after a change.
func (h *handover) updateLinks() {
	for _, l := range h.links.UpdateSpeeds(h.c.now) {
		first, at := l.Next(h.c.now)
		h.pushHandoff(h.tickets[first.ID], at)
	}
}

// continueTransfer continues a transfer at one of its events. An event that was created before the speed of the
// transfer changed has no effect.
func (h *handover) continueTransfer(id sim.RequestID) (did bool, err error) {
	t := h.tickets[id]
	switch {
	case t == nil:
		return false, nil
	case t.at == handing && t.handed == h.c.now:
		return true, h.startTransfer(t)
	case t.at == landing && t.lands == h.c.now:
		h.c.transit--
		return true, h.arrive(t)
	case t.at != sending || !t.load.Sends() || !t.load.HasEnded(h.c.now):
		return false, nil
	}
	at := h.c.now + t.load.Latency
	if t.load.WasAlone(t.began) {
		at = t.began + t.delay
	}
	h.c.transit--
	h.links.End(&t.load, h.c.now)
	h.c.traffic.waited = h.links.Waited()
	if err := h.land(t, at); err != nil {
		return true, err
	}
	h.updateLinks()
	return true, nil
}

// arrive gives a request to its decode worker, after the KV cache has arrived.
func (h *handover) arrive(t *ticket) error {
	if h.c.Observer != nil {
		h.c.Observer.Handoff(t.placed.Request.ID, t.asked, h.c.now)
	}
	t.at = arrived
	if h.Pull {
		return h.endPull(t)
	}
	if id := t.id; h.c.clients.hasHungUp(id) {
		return h.c.clients.endAttempt(&leaver{id: id, pool: h.c.pools[1], worker: collector.Nowhere}, collector.Lost, 0)
	}
	h.c.traffic.transfers++
	h.c.traffic.tokens += t.load.Tokens
	h.c.seatOn(t.worker, &t.placed, t.placed.Request)
	return h.closeTicket(t)
}

// closeTicket ends the ticket of a request.
func (h *handover) closeTicket(t *ticket) error {
	h.tickets[t.id] = nil
	h.freeSource(t)
	if t.given {
		t.worker.promised -= t.blocks
		t.worker.coming--
	}
	workers := [...]*worker{t.source, t.worker}
	*t = ticket{}
	h.spare = append(h.spare, t)
	for _, w := range workers {
		if w == nil {
			continue
		}
		if w.ties--; w.state == leaving && w.ties == 0 {
			if err := h.c.lives.retireIfDone(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropWay ends the ticket of a request that does not arrive, and reports whether it had a decode worker.
func (h *handover) dropWay(id sim.RequestID) (placed bool, err error) {
	t := h.find(id)
	if t == nil {
		return false, nil
	}
	placed = t.worker != nil
	if t.at == computed && !placed {
		h.c.takeHeld(h.c.pools[1], id)
	}
	if t.at == asking {
		h.leaveLine(t)
	}
	if t.at == sending || t.at == landing {
		h.c.transit--
	}
	if t.at == sending {
		h.links.Cancel(&t.load)
		h.updateLinks()
	}
	return placed, h.closeTicket(t)
}

// cutWays ends the tickets of requests from or to a worker that has died. Requests with a KV cache on that worker, or
// in transfer to it, are added to leavers. Requests still in prefill are added to unplaced and get another decode
// worker later.
func (h *handover) cutWays(w *worker, leavers []leaver, unplaced []sim.RequestID) ([]leaver, []sim.RequestID) {
	for _, t := range h.tickets {
		switch {
		case t == nil || t.source != w && t.worker != w:
		case t.at == computing:
			w.ties--
			t.worker = nil
			unplaced = append(unplaced, t.id)
		default:
			leavers = append(leavers, leaver{id: t.id, pool: w.pool, worker: collector.Nowhere})
		}
	}
	return leavers, unplaced
}

// leaveWay ends the ticket of a request that will not arrive, and reports it to the decode router.
func (h *handover) leaveWay(id sim.RequestID) error {
	placed, err := h.dropWay(id)
	if err != nil || !placed {
		return err
	}
	return h.c.pools[1].Leave(h.c.now, id)
}

// setLinkShare sets the share of bandwidth that links have; 0: all of it. setLinkShare applies to later transfers. If
// links are shared, setLinkShare also applies to transfers in progress.
func (h *handover) setLinkShare(share float64) {
	h.c.LinkShare = share
	if h.links != nil {
		h.links.SetShare(share)
		h.updateLinks()
	}
}

// dropWays ends the tickets of leavers, which are sorted by id and may contain a request twice, from both of its
// workers. dropWays adds requests with a decode worker to unplaced, so that the decode router forgets them.
func (h *handover) dropWays(all []leaver, unplaced []sim.RequestID) ([]leaver, []sim.RequestID, error) {
	if h.PD == nil {
		return all, nil, nil
	}
	all = slices.CompactFunc(all, func(a, b leaver) bool { return a.id == b.id })
	for _, x := range all {
		placed, err := h.dropWay(x.id)
		if err != nil {
			return nil, nil, err
		}
		if placed {
			unplaced = append(unplaced, x.id)
		}
	}
	slices.Sort(unplaced)
	return all, slices.Compact(unplaced), nil
}

// trafficFields returns the report fields about transfers between the pools.
func (r *run) trafficFields() []collector.Field {
	if r.traffic == nil {
		return nil
	}
	var all []collector.Field
	if r.PD.Chooses() {
		all = append(all, collector.Of("decode_prefills", r.traffic.local))
	}
	all = append(all, collector.Of("kv_transfers", r.traffic.transfers))
	if bytes := r.Stages[0].Engine.KVBytesPerToken; bytes > 0 {
		all = append(all, collector.Of("kv_transfer_gb", float64(r.traffic.tokens)*float64(bytes)/1e9))
	}
	if r.PD.SharesLinks() {
		all = append(all, collector.Of("mean_kv_transfer_wait_ms", r.traffic.waited/float64(max(r.traffic.transfers, 1))))
	}
	if r.PD.HoldPrefill {
		all = append(all, collector.Of("mean_prefill_hold_ms", r.traffic.held/float64(max(r.traffic.transfers, 1))))
	}
	if r.PD.DecodeAdmission || r.PD.Pull {
		all = append(all, collector.Of("mean_decode_admission_wait_ms", r.traffic.asked/float64(max(r.traffic.transfers, 1))))
	}
	return all
}

// traffic is the sums of transfers between the pools.
type traffic struct {
	local     int     // prompts that decode workers computed
	transfers int     // completed transfers
	tokens    int     // tokens of completed transfers
	waited    float64 // ms added to transfers because links were shared
	asked     float64 // ms that transfers waited for room on decode workers
	held      float64 // ms that prefill workers held blocks after the prompt was computed
}
