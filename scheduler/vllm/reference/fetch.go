package reference

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler/blocks"
)

// Fetch starts to copy the blocks of s, the first waiting request, that are in host memory and follow its prefix on
// the device. If s already holds blocks, it continues with them, and nothing is fetched.
func (o *tiered) Fetch(s slot) blocks.Fetching {
	c, r := o.core, &o.core.requests[s]
	if o.isImpatient() && c.running.len > 0 {
		return blocks.Waiting
	}
	if r.state != waiting || r.computed > 0 || !o.Given() {
		return blocks.Ready
	}
	skip := c.cachedPrefix(s) >> c.shift
	if skip == r.full {
		return blocks.Ready
	}
	o.pinned = o.pinned[:0]
	for i := range skip {
		b := o.findBlock(r, i)
		o.holdBlock(b)
		o.pinned = append(o.pinned, int32(b))
	}
	how := blocks.Ready
	if found := o.findInHost(r, skip); len(found) > 0 {
		if how = o.reservePlaces(len(found)); how == blocks.Parked {
			o.parkRequest(s, skip, found)
			return how
		}
	}
	o.unpinBlocks(o.pinned)
	return how
}

// findInHost returns the consecutive blocks of r from skip on that are in host memory.
func (o *tiered) findInHost(r *request, skip int) (found []blocks.ID) {
	for i := skip; i < r.full; i++ {
		b, ok := o.Has(o.nameOf(r, i))
		if !ok {
			break
		}
		found = append(found, b)
	}
	return found
}

// reservePlaces reserves n blocks on the device for a fetch. If some blocks must be copied to host memory first, the
// request must wait. If there are too few blocks even after such copies, nothing is fetched.
func (o *tiered) reservePlaces(n int) blocks.Fetching {
	got := o.takeBlocks(n)
	emptied := o.Bursting()
	o.core.capture.publishUse()
	o.Flush()
	if got == n {
		o.reserved += n
		return blocks.Parked
	}
	o.free += got
	if emptied {
		return blocks.Waiting
	}
	return blocks.Ready
}

// parkRequest removes s from the queue while its blocks after skip are transferred.
func (o *tiered) parkRequest(s slot, skip int, found []blocks.ID) {
	o.Host.Fetch(s, found, slices.Clone(o.pinned))
	o.core.removeFrom(&o.core.waiting, s)
	t := o.seatOf(s)
	t.cutFetched(skip)
	t.fetched = append(t.fetched, stretch{skip, skip + len(found)})
}

// unpinBlocks releases the pinned prefix, first block first.
func (o *tiered) unpinBlocks(pins []int32) {
	for _, b := range pins {
		o.dropHolder(blocks.ID(b))
	}
}

// FromHost returns how many of the first `tokens` tokens of s were fetched. The first `tokens` tokens must be cached.
// Fetched blocks after them are forgotten, because their tokens are computed again.
func (o *tiered) FromHost(s slot, tokens int) int {
	t := o.seatOf(s)
	t.cutFetched(tokens >> o.core.shift)
	n := 0
	for _, f := range t.fetched {
		n += f.to - f.from
	}
	return n << o.core.shift
}

// cutFetched removes blocks from n on from the fetched blocks.
func (t *seat) cutFetched(n int) {
	for i := range t.fetched {
		f := &t.fetched[i]
		f.to = min(f.to, n)
	}
	t.fetched = slices.DeleteFunc(t.fetched, func(f stretch) bool { return f.from >= f.to })
}

// patience is the number of consecutive passes without a token or progress of a prompt after which requests run one
// at a time.
//
// If evictions wait for copies, requests that do not fit together could preempt each other without progress. By the
// literal rules this could continue forever. With patience the first request continues alone.
const patience = 1000

// dragPatience is the number of passes with preemptions, since the latest end of a request, after which requests run
// one at a time until one ends.
const dragPatience = 2000

func (o *tiered) isImpatient() bool {
	return o.Given() && (o.core.barren >= patience || o.dragged >= dragPatience)
}

// noteProgress counts passes that preempted a request. The count starts over when a request has ended.
func (o *tiered) noteProgress(lost, ended bool) {
	switch {
	case ended:
		o.dragged = 0
	case lost:
		o.dragged++
	}
}

// passesTime reports whether a pass without progress only waited for a transfer.
func (o *tiered) passesTime() bool { return o.Busy() && !o.Stirred() }

// canRetry reports whether the next pass may make progress after a pass without progress. idle tells whether that
// pass did nothing at all.
func (o *tiered) canRetry(idle bool) bool {
	if idle && o.Busy() {
		return true
	}
	return (idle || o.isImpatient()) && o.yieldBlocks()
}

// yieldBlocks makes all waiting requests except the first release their blocks. yieldBlocks reports whether any
// request held blocks.
//
// A request that got too few blocks to continue keeps its blocks while other requests are before it. The first
// waiting request may need exactly the kept blocks.
func (o *tiered) yieldBlocks() (gave bool) {
	c := o.core
	if c.waiting.front == none {
		return false
	}
	for s := c.requests[c.waiting.front].next; s != none; s = c.requests[s].next {
		r := &c.requests[s]
		if r.allocated > 0 {
			o.Release(s)
			r.allocated, r.computed = 0, 0
			gave = true
		}
	}
	return gave
}

// Check panics if the counters of the two memories do not agree.
func (o *tiered) Check() {
	o.checkHolders()
	o.checkPlaces()
	o.Host.Check()
	o.idle.Check("device")
}

// checkHolders panics if the holders of blocks on the device are counted wrong.
func (o *tiered) checkHolders() {
	c := o.core
	holders := make(map[blocks.ID]int32)
	for s, r := range c.inLine() {
		t := o.seatOf(s)
		want := min(c.heldBlocks(r), r.full)
		if r.state == steady {
			want = r.full
		}
		if len(t.held) != want {
			panic(fmt.Sprintf("request %d, %v: %d full blocks held, must be %d", r.id, r.state, len(t.held), want))
		}
		for i, b := range t.held {
			if k := o.Catalog.At(b); k.Name != o.nameOf(r, i) {
				panic(fmt.Sprintf("request %d: block %d is %v, must be %v", r.id, i, k.Name, o.nameOf(r, i)))
			}
			holders[b]++
		}
	}
	for _, f := range o.Fetches() {
		for _, b := range f.Places {
			holders[blocks.ID(b)]++
		}
	}
	for b, k := range o.Catalog.Blocks {
		if k.Holders != holders[b] {
			panic(fmt.Sprintf("block %v: %d holders, must be %d", k.Name, k.Holders, holders[b]))
		}
	}
}

// checkPlaces panics if the blocks on the device are counted wrong.
func (o *tiered) checkPlaces() {
	held := o.core.countPartials()
	for _, k := range o.Catalog.Blocks {
		if k.Holders > 0 {
			held++
		}
		if k.OnDevice && k.Parent != blocks.NoBlock && !o.Catalog.At(k.Parent).OnDevice {
			panic(fmt.Sprintf("block %v: on the device without the one before it", k.Name))
		}
	}
	reserved := 0
	for _, f := range o.Fetches() {
		reserved += len(f.Blocks)
	}
	moving := o.Moving()
	if o.Bursting() || o.free < 0 || o.idle.Len() != o.inactive || reserved != o.reserved ||
		o.free+o.inactive+held+moving+reserved != o.blocks {
		panic(fmt.Sprintf("block pool: %d free + %d inactive + %d held + %d moving out + %d reserved != %d total (%d idle, %d reserved counted)",
			o.free, o.inactive, held, moving, o.reserved, o.blocks, o.idle.Len(), reserved))
	}
}
