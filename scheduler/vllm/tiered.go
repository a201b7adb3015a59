package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/sim"
)

// tiered is a pool with host memory behind it, as vLLM's offloading connector
// has it in the plainest case (docs/engine-args.md): every block that can be
// found is copied to the host from the next pass on, and is held on the device
// until its copy is there. What the head of the line finds in host memory after
// its cached blocks is fetched into blocks taken for it before it is admitted;
// others may overtake it meanwhile.
type tiered struct {
	*device
	*blocks.Host
}

func newTiered(c *Core) *tiered {
	return &tiered{device: newDevice(c), Host: blocks.NewHost(c.cfg.Offload, c.cfg.BlockTokens, c.cfg.Capture)}
}

// nameBlocks makes the first blocks of r ones that can be found, and sends copies.
func (o *tiered) nameBlocks(r *request, blocks int) {
	from := r.named
	o.device.nameBlocks(r, blocks)
	o.sendCopies(r, from)
}

// sendCopies sends copies of the blocks of r that can be found, from the given one
// on, to the host.
func (o *tiered) sendCopies(r *request, from int) {
	for i := from; i < r.named; i++ {
		parent := blocks.NoBlock
		if i > 0 {
			parent = o.Catalog.Find(o.nameOf(r, i-1))
		}
		b, isNew := o.Catalog.Add(o.nameOf(r, i), parent)
		k := o.Catalog.At(b)
		if isNew {
			k.Hashes = o.core.events.hashesOf(r, i)
		}
		if o.Wants(b) {
			o.holdBlock(r.held[i])
			k.Place = int32(r.held[i])
			o.Send(b)
		}
	}
}

// Begin brings the pool to now, the start of the pass p.
func (o *tiered) Begin(now sim.Time, p *scheduler.Pass) []slot {
	copied, fetched := o.Host.Begin(now, p)
	for _, b := range copied {
		o.letGoBlock(blockID(b))
	}
	o.Flush()
	return o.Arrive(fetched, o.cacheFetched)
}

// Fetch starts to bring in what the head of the line, s, finds in host memory
// after its blocks on the device. It must wait for blocks to put them into as
// long as there is anything to wait for.
func (o *tiered) Fetch(s slot) blocks.Fetching {
	c, r := o.core, &o.core.requests[s]
	from := o.Cached(s)
	var found []blocks.ID
	for i, most := from, c.findableBlocks(r); i < most; i++ {
		b, ok := o.Has(o.nameOf(r, i))
		if !ok {
			break
		}
		found = append(found, b)
	}
	if len(found) == 0 {
		return blocks.Ready
	}
	if len(found)+o.idleHits(r, from) > o.free {
		if len(c.running) == 0 && !o.Busy() {
			return blocks.Ready
		}
		return blocks.Waiting
	}
	places := make([]int32, 0, from+len(found))
	for i := range from {
		b := o.findBlock(r, i)
		o.holdBlock(b)
		places = append(places, int32(b))
	}
	for range found {
		places = append(places, int32(o.takeBlock()))
	}
	o.Host.Fetch(s, found, places)
	if r.fetchedTo != from {
		r.fetchedFrom = from
	}
	r.fetchedTo = from + len(found)
	c.waiting.PopFront()
	return blocks.Parked
}

// cacheFetched makes the blocks of a fetch ones that can be found, and lets go of them
// and of those before them, last to first.
func (o *tiered) cacheFetched(f *blocks.Fetch) {
	from, of := len(f.Places)-len(f.Blocks), sim.RequestID(-1)
	if f.Slot != blocks.NoSlot {
		of = o.core.requests[f.Slot].id
	}
	for i, id := range f.Blocks {
		k, b := o.Catalog.At(id), blockID(f.Places[from+i])
		n, index, ok := k.Name.Node()
		switch {
		case ok:
			o.core.events.appendStored(of, k.Hashes, o.setSharedKey(b, int64(n)*int64(o.perNode)+int64(index)))
		case f.Slot != blocks.NoSlot:
			r := &o.core.requests[f.Slot]
			isCopy := o.setKey(r, from+i, b)
			for len(r.former) <= from+i {
				r.former = append(r.former, noBlock)
			}
			r.former[from+i] = b
			o.core.events.noteStored(r, from+i, isCopy)
		}
	}
	for _, b := range slices.Backward(f.Places) {
		o.letGoBlock(blockID(b))
	}
	o.Finish(f)
}

// FromHost returns how many of the first tokens of s, all cached, were fetched
// for it.
func (o *tiered) FromHost(s slot, tokens int) int {
	r := &o.core.requests[s]
	n := max(0, min(r.fetchedTo, tokens>>o.core.shift)-r.fetchedFrom)
	r.fetchedFrom, r.fetchedTo = 0, 0
	return n << o.core.shift
}

// Forget drops what is kept for s, which holds nothing and is gone.
func (o *tiered) Forget(s slot) {
	o.device.Forget(s)
	o.Abandon(s)
}

// nameOf returns what block i of r holds.
func (o *tiered) nameOf(r *request, i int) blocks.Name {
	return blocks.NameOf(o.core.cfg.Tree, r.path, r.shared, r.id, i)
}

// Check holds the accounts of both memories against each other.
func (o *tiered) Check() {
	holders := o.noHolders()
	for _, k := range o.Catalog.Blocks {
		if k.Sending() {
			holders[k.Place]++
		}
	}
	for _, f := range o.Fetches() {
		for _, b := range f.Places {
			holders[b]++
		}
	}
	o.checkHolders(holders)
	o.Host.Check()
}
