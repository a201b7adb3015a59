package reference

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
)

// tiered is a pool with host memory (docs/rules/vllm.md "Host memory"). tiered manages single blocks.
//
// An evicted block is copied to host memory. The slot of an evicted block on the device is free after the copy, too
// late for the allocation that caused the eviction. If a new request finds blocks in host memory after its prefix on
// the device, they are fetched before it is admitted.
type tiered struct {
	*blocks.Host
	*supply
	core   *Core
	idle   blocks.Lineage // inactive blocks on the device
	seats  []seat         // indexed by slot
	pinned []int32        // used by Fetch

	reserved int // number of blocks on the device reserved for fetches
	dragged  int // counted by noteProgress
}

// seat is the data of a request in a tiered pool.
type seat struct {
	held    []blocks.ID // full blocks that the request holds, from the start of its list
	fetched []stretch   // ranges of fetched blocks, ascending and disjoint
}

// stretch is the range of blocks from..to-1 in the list of a request.
type stretch struct{ from, to int }

func newTiered(c *Core) *tiered {
	h := blocks.NewHost(c.cfg.Offload, c.cfg.BlockTokens, c.cfg.Capture)
	return &tiered{Host: h, supply: &c.supply, core: c, idle: blocks.NewLineage(h.Catalog)}
}

// Begin processes the transfers that have ended by now, the start of pass p.
func (o *tiered) Begin(now sim.Time, p *scheduler.Pass) []slot {
	copied, fetched := o.Host.Begin(now, p)
	o.free += len(copied)
	return o.Arrive(fetched, o.cacheFetched)
}

// cacheFetched stores the blocks of a fetch in their reserved slots on the device, without holders. If a block was
// stored on the device meanwhile, its slot is freed.
func (o *tiered) cacheFetched(f *blocks.Fetch) {
	k := &o.core.capture
	for _, b := range f.Blocks {
		x := o.Catalog.At(b)
		if x.OnDevice {
			o.free++
			k.publishUse()
			continue
		}
		x.OnDevice = true
		o.idle.Insert(b)
		o.inactive++
		o.noteResidency(b, false)
		k.noteFetched(x)
	}
	k.publishUse()
	o.reserved -= len(f.Blocks)
	o.Finish(f)
	o.unpinBlocks(f.Places)
}

// Cached returns how many of the first blocks of s are cached on the device.
func (o *tiered) Cached(s slot) int {
	r := &o.core.requests[s]
	for i := range r.full {
		if o.findBlock(r, i) == blocks.NoBlock {
			return i
		}
	}
	return r.full
}

// useBlocks allocates blocks from..to-1 of the list of s and returns how many it allocated. Cached blocks are first,
// because a block is cached only after all blocks before it.
func (o *tiered) useBlocks(s slot, from, to int) int {
	c, r := o.core, &o.core.requests[s]
	t := o.seatOf(s)
	c.capture.beginUse(r, from)
	at, full := from, min(to, r.full)
	for ; at < full; at++ {
		b := o.findBlock(r, at)
		if b == blocks.NoBlock {
			break
		}
		o.holdBlock(b)
		t.held = append(t.held, b)
	}
	cached := at
	for n := o.takeBlocks(to - at); n > 0; n-- {
		if at < full {
			t.held = append(t.held, o.storeBlock(r, at, t.held))
		}
		at++
	}
	if cached > from {
		c.capture.noteHit(r, cached-1)
	}
	c.capture.noteStored(r, cached, min(at, full))
	c.capture.publishUse()
	o.Flush()
	return at - from
}

// openBlock allocates a block for the tokens after the full blocks of s.
func (o *tiered) openBlock(s slot) bool {
	full := o.core.requests[s].full
	return o.useBlocks(s, full, full+1) == 1
}

// takeBlocks allocates up to n blocks on the device, free blocks first. Then takeBlocks evicts cached blocks. The
// slot of an evicted block is available at once if host memory has the block already, or is receiving it.
func (o *tiered) takeBlocks(n int) int {
	got := min(n, o.free)
	o.free -= got
	for range n - got {
		b := o.idle.Evict()
		if b == blocks.NoBlock {
			break
		}
		k := o.Catalog.At(b)
		k.OnDevice = false
		o.inactive--
		o.noteResidency(b, true)
		o.core.capture.noteLeft(k)
		if o.Wants(b) {
			o.Send(b)
			continue
		}
		got++
		o.Catalog.Drop(b)
	}
	return got
}

// storeBlock stores block i of r in an allocated slot of the device, with r as the holder. before are the previous
// blocks of r.
func (o *tiered) storeBlock(r *request, i int, before []blocks.ID) blocks.ID {
	parent := blocks.NoBlock
	if i > 0 && o.core.cfg.PrefixCaching {
		parent = before[i-1]
	}
	b, isNew := o.Catalog.Add(o.nameOf(r, i), parent)
	k := o.Catalog.At(b)
	if isNew {
		k.Hashes = o.core.capture.hashesOf(r, i)
	}
	if invariant.Enabled && (k.OnDevice || k.Parent != blocks.NoBlock && !o.Catalog.At(k.Parent).OnDevice) {
		panic(fmt.Sprintf("block %v stored: on the device %v, expected not, and the one before it there", k.Name, k.OnDevice))
	}
	k.OnDevice, k.Holders = true, 1
	o.noteResidency(b, false)
	return b
}

// holdBlock adds a holder to b, which must be on the device.
func (o *tiered) holdBlock(b blocks.ID) {
	k := o.Catalog.At(b)
	if k.Holders == 0 {
		o.idle.Remove(b)
		o.inactive--
	}
	k.Holders++
}

// dropHolder removes a holder from b.
func (o *tiered) dropHolder(b blocks.ID) {
	k := o.Catalog.At(b)
	if k.Holders--; k.Holders == 0 {
		o.idle.Insert(b)
		o.inactive++
	}
}

// promotePartial stores the last full block of s, which was a partial block before.
func (o *tiered) promotePartial(s slot) {
	t, r := o.seatOf(s), &o.core.requests[s]
	r.part = false
	r.full++
	t.held = append(t.held, o.storeBlock(r, r.full-1, t.held))
	o.core.capture.notePromoted(r)
}

// Release releases all blocks of s, last to first.
func (o *tiered) Release(s slot) {
	t := o.seatOf(s)
	if r := &o.core.requests[s]; o.core.heldBlocks(r) > r.full {
		o.free++
	}
	for _, b := range slices.Backward(t.held) {
		o.dropHolder(b)
	}
	t.held = t.held[:0]
}

// Forget removes the data of s, which has left and holds no blocks.
func (o *tiered) Forget(s slot) {
	t := o.seatOf(s)
	t.fetched = t.fetched[:0]
	o.core.capture.removeRequest(&o.core.requests[s])
	o.Abandon(s)
}

// nameOf returns the name of full block i of r.
func (o *tiered) nameOf(r *request, i int) blocks.Name {
	return blocks.NameOf(o.core.cfg.Tree, r.path, r.shared, r.id, i)
}

// findBlock returns block i of r if it is cached on the device, otherwise blocks.NoBlock.
func (o *tiered) findBlock(r *request, i int) blocks.ID {
	b := o.Catalog.Find(o.nameOf(r, i))
	if b != blocks.NoBlock && !o.Catalog.At(b).OnDevice {
		return blocks.NoBlock
	}
	return b
}

// seatOf returns the seat of s.
func (o *tiered) seatOf(s slot) *seat {
	for int(s) >= len(o.seats) {
		o.seats = append(o.seats, seat{})
	}
	return &o.seats[s]
}

// noteResidency records for the router's index that block b is now the last cached block of its node. If gone is set,
// the block before b is.
func (o *tiered) noteResidency(b blocks.ID, gone bool) {
	n, last, ok := o.Catalog.At(b).Name.Node()
	if !ok {
		return
	}
	if !gone {
		last++
	}
	o.core.capture.noteResidency(n, last)
}
