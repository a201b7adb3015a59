package blocks

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// transfers is what moves between the device and host memory, on a link each
// way. To the host, a burst of blocks is cut into batches, and batches queue for
// a place on the link.
type transfers struct {
	now        sim.Time // start of the pass
	stirred    bool     // a transfer began or ended in the pass
	blockBytes float64
	started    transferID
	done       []transferID

	toHost      link
	batchBlocks int
	burst       []ID
	batches     []batch // in progress
	queue       []batch // to come

	toGPU   link
	fetches []Fetch // in order of their start
	arrived []Slot  // by the pass
}

// batch is blocks that go to the host in one transfer.
type batch struct {
	id     transferID
	blocks []ID
}

// Fetch is a request that waits for blocks from host memory.
type Fetch struct {
	id     transferID
	Slot   Slot    // NoSlot once it was abandoned
	Blocks []ID    // read from host memory
	Places []int32 // what its pool keeps for it on the device
	done   bool
}

func newTransfers(cfg Offload, blockTokens int) transfers {
	return transfers{
		blockBytes:  float64(blockTokens) * float64(cfg.BytesPerToken),
		batchBlocks: cfg.BatchBlocks,
		toHost:      newLink(cfg.ToHostGBPerSecond), toGPU: newLink(cfg.ToGPUGBPerSecond),
	}
}

// Begin starts the pass p at now: what has been transferred by then arrives. It
// returns the places of the blocks that have been copied to the host, which
// their pool may use again, and the fetches that are done, in the order in which
// they began. The pool gives these to Arrive, and calls Finish for each.
func (h *Host) Begin(now sim.Time, p *scheduler.Pass) (copied []int32, fetched []Fetch) {
	h.now, h.out = now, p
	h.done = h.toHost.advance(now, h.done[:0])
	sent := len(h.done)
	h.done = h.toGPU.advance(now, h.done)
	h.stirred = len(h.done) > 0
	for _, id := range h.done[:sent] {
		i := slices.IndexFunc(h.batches, func(b batch) bool { return b.id == id })
		blocks := h.batches[i].blocks
		h.batches = slices.Delete(h.batches, i, i+1)
		for _, b := range blocks {
			copied = append(copied, h.Catalog.At(b).Place)
			h.keepCopy(b)
		}
	}
	h.startBatches()
	if sent == len(h.done) {
		return copied, nil
	}
	for i := range h.fetches {
		if f := &h.fetches[i]; slices.Contains(h.done[sent:], f.id) {
			f.done = true
			fetched = append(fetched, *f)
		}
	}
	h.fetches = slices.DeleteFunc(h.fetches, func(f Fetch) bool { return f.done })
	return copied, fetched
}

// Send puts b, which host memory wants, on its way there with the burst that
// Flush ends.
func (h *Host) Send(b ID) {
	h.Catalog.At(b).sending = true
	h.burst = append(h.burst, b)
}

// Bursting reports whether blocks were sent since the last Flush.
func (h *Host) Bursting() bool { return len(h.burst) > 0 }

// Flush gives the blocks of the burst to the link.
func (h *Host) Flush() {
	for blocks := range slices.Chunk(h.burst, h.batchBlocks) {
		h.queue = append(h.queue, batch{blocks: slices.Clone(blocks)})
	}
	h.burst = h.burst[:0]
	h.startBatches()
}

// startBatches starts the transfers that have a place on the link.
func (h *Host) startBatches() {
	begun := 0
	for _, b := range h.queue {
		if len(h.batches) == h.batchBlocks {
			break
		}
		b.id = h.nextTransfer()
		h.toHost.start(h.now, b.id, float64(len(b.blocks))*h.blockBytes)
		h.batches = append(h.batches, b)
		begun++
	}
	h.queue = slices.Delete(h.queue, 0, begun)
}

func (t *transfers) nextTransfer() transferID {
	t.stirred = true
	t.started++
	return t.started
}

// Fetch begins to transfer blocks, which are in host memory, for s; places are
// noted for its pool.
func (h *Host) Fetch(s Slot, blocks []ID, places []int32) {
	f := Fetch{id: h.nextTransfer(), Slot: s, Blocks: blocks, Places: places}
	for _, b := range blocks {
		h.pinBlock(b)
	}
	h.toGPU.start(h.now, f.id, float64(len(blocks))*h.blockBytes)
	h.fetches = append(h.fetches, f)
}

// Arrive ends fetches that Begin returned: cache takes in the blocks of each. It
// returns the requests that waited for them, in order, valid until the next call.
func (h *Host) Arrive(fetched []Fetch, cache func(*Fetch)) []Slot {
	h.arrived = h.arrived[:0]
	for i := range fetched {
		cache(&fetched[i])
		if s := fetched[i].Slot; s != NoSlot {
			h.arrived = append(h.arrived, s)
		}
	}
	return h.arrived
}

// Finish ends a fetch: its blocks in host memory may go again.
func (h *Host) Finish(f *Fetch) {
	for _, b := range f.Blocks {
		h.unpinBlock(b)
	}
}

// Abandon lets what is being fetched for s arrive without a request.
func (h *Host) Abandon(s Slot) {
	for i := range h.fetches {
		if f := &h.fetches[i]; f.Slot == s {
			f.Slot = NoSlot
		}
	}
}

// Fetches returns the fetches in progress.
func (h *Host) Fetches() []Fetch { return h.fetches }

// Fetching returns the number of requests that wait for a fetch.
func (h *Host) Fetching() (n int) {
	for i := range h.fetches {
		if h.fetches[i].Slot != NoSlot {
			n++
		}
	}
	return n
}

// Moving returns the number of blocks on their way to the host.
func (h *Host) Moving() int {
	n := len(h.burst)
	for _, list := range [][]batch{h.batches, h.queue} {
		for _, b := range list {
			n += len(b.blocks)
		}
	}
	return n
}

// Busy reports whether something is being transferred.
func (t *transfers) Busy() bool { return t.toHost.isBusy() || t.toGPU.isBusy() }

// Stirred reports whether a transfer began or ended in the pass.
func (t *transfers) Stirred() bool { return t.stirred }

// Linger lets a pass that took no time and made no token last until the next
// transfer ends.
func (t *transfers) Linger(p *scheduler.Pass) {
	if p.End > p.Start || p.Tokens > 0 || !t.Busy() {
		return
	}
	var next sim.Time
	switch {
	case !t.toGPU.isBusy():
		next = t.toHost.next()
	case !t.toHost.isBusy():
		next = t.toGPU.next()
	default:
		next = min(t.toHost.next(), t.toGPU.next())
	}
	p.End = max(next, p.Start)
}
