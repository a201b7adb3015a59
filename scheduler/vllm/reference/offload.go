package reference

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// offload is the KV blocks of an engine with host memory behind them
// (vllm-scheduler.md part 11). It stands in for the nodes and segments of pool,
// whose counts it keeps, and knows every block by itself.
//
// A cached block that is evicted moves to the host: its place on the GPU serves
// again when the copy is done, and the allocation that evicted it goes without.
// What a new request finds in host memory after its prefix on the GPU is
// swapped in before the request is admitted.
type offload struct {
	core    *Core
	pool    *pool
	catalog catalog
	idle    lineage // blocks on the GPU that nobody holds
	seats   []seat  // by slot
	host    hostPool

	now        sim.Time // start of the pass
	stirred    bool     // a transfer began or ended in the pass
	blockBytes float64
	transfers  transferID // started so far
	dragged    int        // see drag
	done       []transferID

	// Out: a burst is cut into batches, batches queue for the link.
	toHost      link
	batchBlocks int
	burst       []blockID // evicted and not yet sent
	batches     []batch   // under way
	queue       []batch   // to come
	moving      int       // places on the GPU that wait for a copy

	// In.
	toGPU    link
	swapIns  []swapIn // in order of their start
	reserved int      // places on the GPU kept for swap-ins
	pinned   []blockID
}

// batch is blocks that go to the host in one transfer.
type batch struct {
	id     transferID
	blocks []blockID
}

// seat is what an offload keeps for a request.
type seat struct {
	held    []blockID // the full blocks it holds: the first of its list
	fetched []stretch // swapped in for it, ascending and apart
}

// stretch is blocks from..to-1 of a request's list.
type stretch struct{ from, to int }

func newOffload(c *Core) *offload {
	cfg := &c.cfg.Offload
	if cfg.BatchBlocks <= 0 {
		panic(fmt.Sprintf("offload: batches of %d blocks, want > 0", cfg.BatchBlocks))
	}
	o := &offload{
		core: c, pool: &c.pool, catalog: newCatalog(),
		blockBytes:  float64(c.cfg.BlockTokens) * float64(cfg.BytesPerToken),
		batchBlocks: cfg.BatchBlocks,
		toHost:      newLink(cfg.ToHostGBPerSecond), toGPU: newLink(cfg.ToGPUGBPerSecond),
	}
	o.idle.catalog = &o.catalog
	o.host = newHostPool(cfg.Blocks, &o.catalog)
	return o
}

// busy says that something is being transferred.
func (o *offload) busy() bool { return o.toHost.busy() || o.toGPU.busy() }

// begin starts a pass: what has been transferred by now arrives.
func (o *offload) begin(now sim.Time) {
	o.now = now
	o.done = o.toHost.advance(now, o.done[:0])
	sent := len(o.done)
	o.done = o.toGPU.advance(now, o.done)
	o.stirred = len(o.done) > 0
	for _, id := range o.done[:sent] {
		o.arrived(id)
	}
	o.sendBatches()
	o.finishSwapIns(o.done[sent:])
}

// end lets a pass that took no time and made no token last until the next
// transfer is done.
func (o *offload) end(p *scheduler.Pass) {
	if p.End > p.Start || p.Tokens > 0 || !o.busy() {
		return
	}
	var next sim.Time
	switch {
	case !o.toGPU.busy():
		next = o.toHost.next()
	case !o.toHost.busy():
		next = o.toGPU.next()
	default:
		next = min(o.toHost.next(), o.toGPU.next())
	}
	p.End = max(next, p.Start)
}

// send gives the blocks of the burst to the link.
func (o *offload) send() {
	for blocks := range slices.Chunk(o.burst, o.batchBlocks) {
		o.queue = append(o.queue, batch{blocks: slices.Clone(blocks)})
	}
	o.burst = o.burst[:0]
	o.sendBatches()
}

// sendBatches starts the transfers that have a place on the link.
func (o *offload) sendBatches() {
	started := 0
	for _, b := range o.queue {
		if len(o.batches) == o.batchBlocks {
			break
		}
		b.id = o.nextTransfer()
		o.toHost.start(o.now, b.id, float64(len(b.blocks))*o.blockBytes)
		o.batches = append(o.batches, b)
		started++
	}
	o.queue = slices.Delete(o.queue, 0, started)
}

func (o *offload) nextTransfer() transferID {
	o.stirred = true
	o.transfers++
	return o.transfers
}

// arrived takes a batch into host memory and frees its places on the GPU.
func (o *offload) arrived(id transferID) {
	i := slices.IndexFunc(o.batches, func(b batch) bool { return b.id == id })
	blocks := o.batches[i].blocks
	o.batches = slices.Delete(o.batches, i, i+1)
	o.moving -= len(blocks)
	o.pool.free += len(blocks)
	for _, b := range blocks {
		k := &o.catalog.blocks[b]
		k.sending = false
		evicted, stored := o.host.store(b)
		if evicted != noBlock {
			o.core.capture.leftHost(&o.catalog.blocks[evicted])
			o.catalog.drop(evicted)
		}
		if stored {
			o.core.capture.reachedHost(k)
		}
		o.catalog.drop(b)
	}
}

// name is what block i of r's list, a full one, holds.
func (o *offload) name(r *request, i int) blockName {
	if i < r.shared {
		n := r.path[o.pool.tree.Index(r.path, i)]
		return blockName{int64(n), int32(i) - o.pool.tree.Start(n)}
	}
	return blockName{^int64(r.id), int32(i)}
}

// found is block i of r's list when it is cached on the GPU, else noBlock.
func (o *offload) found(r *request, i int) blockID {
	b := o.catalog.find(o.name(r, i))
	if b != noBlock && !o.catalog.blocks[b].onGPU {
		return noBlock
	}
	return b
}

// seat is the seat of s.
func (o *offload) seat(s slot) *seat {
	for int(s) >= len(o.seats) {
		o.seats = append(o.seats, seat{})
	}
	return &o.seats[s]
}

// leave forgets what s was, which holds nothing any more.
func (o *offload) leave(s slot) {
	t := o.seat(s)
	t.fetched = t.fetched[:0]
}

// fromHost is the number of the first tokens of s, all cached, that were
// swapped in for it. It forgets those after them: they are computed anew.
func (o *offload) fromHost(s slot, tokens int) int {
	t := o.seat(s)
	t.cut(tokens >> o.core.shift)
	blocks := 0
	for _, f := range t.fetched {
		blocks += f.to - f.from
	}
	return blocks << o.core.shift
}

// cut drops what was fetched from block n on.
func (t *seat) cut(n int) {
	for i := range t.fetched {
		f := &t.fetched[i]
		f.to = min(f.to, n)
	}
	t.fetched = slices.DeleteFunc(t.fetched, func(f stretch) bool { return f.from >= f.to })
}

// resident tells the router's index that block b is now the last of its node,
// or, when gone, that the one before is.
func (o *offload) resident(b blockID, gone bool) {
	k := &o.catalog.blocks[b]
	n, ok := k.node()
	if !ok {
		return
	}
	blocks := k.name.index + 1
	if gone {
		blocks--
	}
	o.core.capture.residency(n, blocks)
}
