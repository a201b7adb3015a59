package offline

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// handover is how requests come from prefill to decode workers where they get their decode
// worker before their KV cache is there (docs/rules/harness.md, Decode workers that are chosen
// early).
type handover struct {
	*engines.PD // nil: decode workers are chosen when KV caches have come
	choose      *harness.Chooser
	link        scheduler.Transfer // what a transfer has to itself
	links       *links             // nil: nothing is shared
	tickets     []*ticket          // by request; nil: on no way between the pools
	spare       []*ticket
	asking      int // tickets in line for room
}

// ticket is the way of a request to its decode worker.
type ticket struct {
	id     sim.RequestID
	at     stop
	worker *worker // the decode worker it has been given; nil: none
	source *worker // the prefill worker that has its KV cache
	placed router.Placement
	delay  sim.Time // of its transfer, if it has the link to itself
	blocks int      // that its prompt takes on the decode worker, where that is asked for room
	given  bool     // that room is kept for it
	asked  sim.Time // when it was ready to be sent
	began  sim.Time // its transfer, or the wait for a link
	lands  sim.Time // when it is there, while landing
	order  order    // of the events of its transfer
	load   transfer
}

// stop is how far a request has come.
type stop uint8

const (
	computing stop = iota // on its way through prefill
	computed              // without a decode worker
	asking                // in line for room on its decode worker
	sending               // on the links
	landing               // off the links, and not there yet
	arrived               // there
)

// planHandover prepares the ways of requests between the pools.
func (c *cluster) planHandover() (err error) {
	h := &c.handover
	if !c.PD.PicksEarly() {
		return nil
	}
	h.PD, c.traffic = c.PD, new(traffic)
	h.link = c.pools[0].Engine.Transfer()
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
		h.links = newLinks(h.Sharing == engines.ShareInTurns, nic/own, core/own)
	}
	if h.links != nil {
		h.links.traffic = c.traffic
	}
	h.choose, err = c.NewChooser([]*harness.Pool{c.pools[0].Pool, c.pools[1].Pool})
	return err
}

// find returns the ticket of a request; nil where it has none.
func (h *handover) find(id sim.RequestID) *ticket {
	if int(id) >= len(h.tickets) {
		return nil
	}
	return h.tickets[id]
}

// open returns the ticket of a request, a new one where it has none.
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

// enterFirst brings a request before the router of the pool where it enters.
func (c *cluster) enterFirst(q *sim.Request) error {
	if h := &c.handover; h.PD != nil {
		q.Local = false
		if h.DecodeChosen == engines.BeforePrefill {
			return c.enterDecode(q.ID)
		}
	}
	return c.enterPool(c.pools[0], q)
}

// bindDecode gives a request its decode worker before its KV cache is there. It reports false
// where that worker computes the prompt itself, now.
func (c *cluster) bindDecode(w *worker, placed *router.Placement) (bound bool, err error) {
	h, q := &c.handover, placed.Request
	if h.find(q.ID) == nil && h.choose != nil && h.choose.ChoosePool(c.now, placed, c.transit).Index == 1 {
		q.Local = true
		c.traffic.local++
		c.Collector.PlacePrefill(q.ID, collector.Nowhere) // which it may have had before it began again
		return false, nil
	}
	t := h.open(q.ID)
	t.worker, t.placed = w, *placed
	w.ties++
	if t.at == computed {
		return true, c.beginTransfer(t)
	}
	c.pools[1].Router.ComesComputed(q.ID)
	c.pools[0].entered++
	return true, c.enterPool(c.pools[0], q)
}

// sendToDecode lets the KV cache of a request, whose prompt is computed, go to its decode worker.
func (c *cluster) sendToDecode(id sim.RequestID, delay sim.Time) error {
	t := c.handover.open(id)
	t.source = c.pools[0].workers[c.Collector.Record(id).PrefillWorker]
	t.source.ties++
	t.delay = delay
	if t.worker != nil {
		return c.beginTransfer(t)
	}
	t.at = computed
	return c.enterDecode(id)
}

// beginTransfer sends the KV cache of a request on its way, which has a decode worker, or lets it
// wait for room there.
func (c *cluster) beginTransfer(t *ticket) error {
	t.asked = c.now
	if c.handover.DecodeAdmission {
		return c.askForRoom(t)
	}
	return c.startTransfer(t)
}

// startTransfer sends the KV cache of a request on its way now.
func (c *cluster) startTransfer(t *ticket) error {
	h, q := &c.handover, t.placed.Request
	tokens := q.InputTokens
	if h.Missing {
		tokens -= min(tokens, int(t.placed.Overlap)*c.pools[1].Engine.BlockTokens)
		t.delay = h.link.Delay(tokens)
		if h.links == nil && c.LinkShare != 0 {
			t.delay = sim.Time(float64(t.delay) / c.LinkShare)
		}
	}
	t.began, t.order = c.now, c.nextOrder()
	t.load.tokens = tokens
	if h.links == nil {
		return c.land(t, c.now+t.delay)
	}
	alone := scheduler.Transfer{GBPerSecond: h.link.GBPerSecond, BytesPerToken: h.link.BytesPerToken}
	t.delay = h.link.Delay(tokens)
	if t.delay <= 0 {
		return c.arrive(t)
	}
	t.at = sending
	t.load = transfer{id: q.ID, from: t.source.id, to: t.worker.id, tokens: tokens, alone: alone.Delay(tokens), latency: h.link.Latency}
	c.transit++
	h.links.ask(&t.load, c.now)
	c.updateLinks()
	return nil
}

// land lets the KV cache of a request, which is off the links, arrive at an instant.
func (c *cluster) land(t *ticket, at sim.Time) error {
	if at <= c.now {
		return c.arrive(t)
	}
	c.transit++
	t.at, t.lands = landing, at
	c.pushHandoff(t, at)
	return nil
}

// pushHandoff makes an event of the way of a request.
func (c *cluster) pushHandoff(t *ticket, at sim.Time) {
	c.pending++
	c.events.push(event{at: at, order: t.order, kind: handoffDone, request: t.placed.Request.ID})
}

// updateLinks works out the speeds of all transfers after a change.
func (c *cluster) updateLinks() {
	for _, l := range c.handover.links.updateSpeeds(c.now) {
		first, at := l.next(c.now)
		c.pushHandoff(c.handover.tickets[first.id], at)
	}
}

// goOnWithTransfer takes a request further whose transfer has an event now. An event that was
// made before the transfer's speed changed has nothing to do.
func (c *cluster) goOnWithTransfer(id sim.RequestID) (did bool, err error) {
	t := c.handover.tickets[id]
	switch {
	case t == nil:
		return false, nil
	case t.at == landing && t.lands == c.now:
		c.transit--
		return true, c.arrive(t)
	case t.at != sending || t.load.lane == nil:
		return false, nil
	}
	l := t.load.lane
	if first, at := l.next(c.now); first != &t.load || at > c.now {
		return false, nil
	}
	at := c.now + t.load.latency
	if !l.slowed && t.load.began == t.began {
		at = t.began + t.delay
	}
	c.transit--
	c.handover.links.end(&t.load, c.now)
	if err := c.land(t, at); err != nil {
		return true, err
	}
	c.updateLinks()
	return true, nil
}

// arrive gives a request whose KV cache is there to its decode worker.
func (c *cluster) arrive(t *ticket) error {
	if c.Observer != nil {
		c.Observer.Handoff(t.placed.Request.ID, t.asked, c.now)
	}
	t.at = arrived
	if id := t.id; c.hasHungUp(id) {
		return c.endAttempt(&leaver{id: id, pool: c.pools[1], worker: collector.Nowhere}, collector.Lost, 0)
	}
	c.traffic.transfers++
	c.traffic.tokens += t.load.tokens
	c.seatOn(t.worker, &t.placed, t.placed.Request)
	return c.closeTicket(t)
}

// closeTicket ends the way of a request.
func (c *cluster) closeTicket(t *ticket) error {
	h := &c.handover
	h.tickets[t.id] = nil
	c.freeSource(t)
	if t.given {
		t.worker.promised -= t.blocks
	}
	workers := [...]*worker{t.source, t.worker}
	*t = ticket{}
	h.spare = append(h.spare, t)
	for _, w := range workers {
		if w == nil {
			continue
		}
		if w.ties--; w.state == leaving && w.ties == 0 {
			if err := c.letGoIfDone(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropWay ends the way of a request that does not arrive, and reports whether it had a decode
// worker.
func (c *cluster) dropWay(id sim.RequestID) (placed bool, err error) {
	t := c.handover.find(id)
	if t == nil {
		return false, nil
	}
	placed = t.worker != nil
	if t.at == computed && !placed {
		c.takeHeld(c.pools[1], id)
	}
	if t.at == asking {
		c.leaveLine(t)
	}
	if t.at == sending || t.at == landing {
		c.transit--
	}
	if t.at == sending {
		c.handover.links.cancel(&t.load)
		c.updateLinks()
	}
	return placed, c.closeTicket(t)
}

// cutWays cuts the ways of requests through a worker that has died. Those whose KV cache it had,
// or was to have, are among the leavers; those that are still on their way through prefill get
// another decode worker afterwards, and are in unplaced.
func (c *cluster) cutWays(w *worker, leavers []leaver, unplaced []sim.RequestID) ([]leaver, []sim.RequestID) {
	for _, t := range c.handover.tickets {
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

// leaveWay ends the way of a request that will not arrive, and lets the decode router know.
func (c *cluster) leaveWay(id sim.RequestID) error {
	placed, err := c.dropWay(id)
	if err != nil || !placed {
		return err
	}
	return c.pools[1].Leave(c.now, id)
}

// setLinkShare gives links a share of their bandwidth, 0 all of it: transfers that begin from
// now on, and where links are shared those on their way.
func (c *cluster) setLinkShare(share float64) {
	c.LinkShare = share
	if n := c.handover.links; n != nil {
		if n.share = share; share == 0 {
			n.share = 1
		}
		c.updateLinks()
	}
}

// dropWays ends the ways of leavers, which come in order and may be named by both of their
// workers. Those that had a decode worker join the others that the decode router has to forget.
func (c *cluster) dropWays(all []leaver, unplaced []sim.RequestID) ([]leaver, []sim.RequestID, error) {
	if c.handover.PD == nil {
		return all, nil, nil
	}
	all = slices.CompactFunc(all, func(a, b leaver) bool { return a.id == b.id })
	for _, x := range all {
		placed, err := c.dropWay(x.id)
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

// trafficFields returns what a report tells of what has gone between the pools.
func (r *run) trafficFields() []collector.Field {
	if r.traffic == nil {
		return nil
	}
	var all []collector.Field
	if r.PD.Chooses() {
		all = append(all, collector.Field{Key: "decode_prefills", Value: r.traffic.local})
	}
	all = append(all, collector.Field{Key: "kv_transfers", Value: r.traffic.transfers})
	if bytes := r.Stages[0].Engine.KVBytesPerToken; bytes > 0 {
		all = append(all, collector.Field{Key: "kv_transfer_gb", Value: float64(r.traffic.tokens) * float64(bytes) / 1e9})
	}
	if r.PD.SharesLinks() {
		all = append(all, collector.Field{Key: "mean_kv_transfer_wait_ms", Value: r.traffic.waited / float64(max(r.traffic.transfers, 1))})
	}
	if r.PD.HoldPrefill {
		all = append(all, collector.Field{Key: "mean_prefill_hold_ms", Value: r.traffic.held / float64(max(r.traffic.transfers, 1))})
	}
	if r.PD.DecodeAdmission {
		all = append(all, collector.Field{Key: "mean_decode_admission_wait_ms", Value: r.traffic.asked / float64(max(r.traffic.transfers, 1))})
	}
	return all
}
