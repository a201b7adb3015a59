package blocks

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// transfers is the state of transfers between the device and host memory, with one link per direction. A burst of
// blocks to the host is cut into batches. Batches wait in a queue if too many transfers are in progress.
type transfers struct {
	now        sim.Time // start of the pass
	stirred    bool     // a transfer began or ended in the pass
	blockBytes float64
	started    transferID
	done       []transferID

	toHost      link
	batchBlocks int
	burst       []ID
	batches     []batch // batches in progress
	queue       []batch // waiting

	toGPU   link
	fetches []Fetch // fetches in the order of their start
	arrived []Slot  // requests returned by Arrive
}

// batch is the blocks of one transfer to the host.
type batch struct {
	id     transferID
	blocks []ID
}

// Fetch is a transfer of blocks from host memory for a waiting request.
type Fetch struct {
	id     transferID
	Slot   Slot    // NoSlot after Abandon
	Blocks []ID    // read from host memory
	Places []int32 // data of the pool for these blocks on the device
	done   bool
}

func newTransfers(cfg Offload, blockTokens int) transfers {
	return transfers{
		blockBytes:  float64(blockTokens) * float64(cfg.BytesPerToken),
		batchBlocks: cfg.BatchBlocks,
		toHost:      newLink(cfg.ToHostGBPerSecond), toGPU: newLink(cfg.ToGPUGBPerSecond),
	}
}

// Begin starts the pass p at now and completes the transfers that have ended by then. Begin returns the places of the
// blocks that were copied to the host, which their pool may reuse. Begin also returns the completed fetches in the
// order of their start. The pool passes these fetches to Arrive, and calls Finish for each.
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

// Send adds b, for which Wants is true, to the burst that Flush ends.
func (h *Host) Send(b ID) {
	h.Catalog.At(b).sending = true
	h.burst = append(h.burst, b)
}

// Bursting reports whether blocks were sent since the last Flush.
func (h *Host) Bursting() bool { return len(h.burst) > 0 }

// Flush queues the blocks of the burst for transfer.
func (h *Host) Flush() {
	for blocks := range slices.Chunk(h.burst, h.batchBlocks) {
		h.queue = append(h.queue, batch{blocks: slices.Clone(blocks)})
	}
	h.burst = h.burst[:0]
	h.startBatches()
}

// startBatches starts queued transfers up to the maximum number of concurrent transfers.
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

// Fetch starts the transfer of blocks, which are in host memory, to the device for s. The places are data of the
// pool.
func (h *Host) Fetch(s Slot, blocks []ID, places []int32) {
	f := Fetch{id: h.nextTransfer(), Slot: s, Blocks: blocks, Places: places}
	for _, b := range blocks {
		h.pinBlock(b)
	}
	h.toGPU.start(h.now, f.id, float64(len(blocks))*h.blockBytes)
	h.fetches = append(h.fetches, f)
}

// Arrive calls cache for each fetch that Begin returned. Arrive returns the requests that waited for these fetches,
// in order; the slice is valid until the next call.
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

// Finish ends a fetch: its blocks in host memory can be evicted again.
func (h *Host) Finish(f *Fetch) {
	for _, b := range f.Blocks {
		h.unpinBlock(b)
	}
}

// Abandon detaches the fetches of s from s: their blocks still arrive, but for no request.
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

// Moving returns the number of blocks in queued and running transfers to the host.
func (h *Host) Moving() int {
	n := len(h.burst)
	for _, list := range [][]batch{h.batches, h.queue} {
		for _, b := range list {
			n += len(b.blocks)
		}
	}
	return n
}

// Busy reports whether any transfer is in progress.
func (t *transfers) Busy() bool { return t.toHost.isBusy() || t.toGPU.isBusy() }

// Stirred reports whether a transfer started or ended in the pass.
func (t *transfers) Stirred() bool { return t.stirred }

// Linger extends a pass without duration and without output tokens to the end of the next transfer.
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
