package blocks

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// newHost returns host memory with a capacity of the given number of blocks of 4 bytes, 4 bytes per ms in each
// direction, and batches of two.
func newHost(blocks int) *Host {
	return NewHost(Offload{
		Blocks: blocks, BytesPerToken: 1, BatchBlocks: 2, ToHostGBPerSecond: 4e-6, ToGPUGBPerSecond: 4e-6,
	}, 4, scheduler.CaptureNone)
}

// Three blocks of a chain are stored in a host with two blocks, tail first, as the device evicts them. Blocks with a
// reader stay, and stored blocks are not stored again.
func TestHostStores(t *testing.T) {
	h := newHost(2)
	k := h.Catalog
	chains(k, []int32{0, 1, 2}, []int32{3})
	store := func(i, evicts int32, stored bool) {
		t.Helper()
		want := NoBlock
		if evicts >= 0 {
			want = number(k, evicts)
		}
		if got, ok := h.storeBlock(number(k, i)); got != want || ok != stored {
			t.Errorf("store %d: evicts %d, stored %v, want %d, %v", i, got, ok, want, stored)
		}
		h.Check()
	}
	const nothing = -1
	store(2, nothing, true)
	store(1, nothing, true)
	store(1, nothing, false) // already stored
	store(3, 2, true)        // the leaf of the chain is evicted, though 1 is younger
	h.pinBlock(number(k, 1))
	store(0, 3, true) // block 1 has a reader
	h.pinBlock(number(k, 0))
	store(3, nothing, false) // no block can be evicted
	h.pinBlock(number(k, 1))
	h.unpinBlock(number(k, 1))
	store(3, nothing, false) // block 1 has one more reader
	h.unpinBlock(number(k, 1))
	store(3, 1, true)
}

// A burst of five blocks is sent in batches of two, two batches at once: 4 bytes a block at 4 bytes per ms. The third
// batch starts at the first pass after one of the two transfers ends.
func TestHostSendsInBatches(t *testing.T) {
	for _, c := range []struct {
		look, last sim.Time // the start of the second pass, and the time at which all blocks have arrived
	}{{4, 5}, {10, 11}} {
		h := newHost(100)
		var p scheduler.Pass
		chains(h.Catalog, []int32{0, 1, 2, 3, 4})
		h.Begin(0, &p)
		for i := range int32(5) {
			b := number(h.Catalog, 4-i)
			h.Catalog.At(b).Place = 70 + i
			h.Send(b)
		}
		if !h.Bursting() || h.Busy() {
			t.Errorf("bursting %v, busy %v before the burst is over", h.Bursting(), h.Busy())
		}
		h.Flush()
		if len(h.batches) != 2 || len(h.queue) != 1 || h.toHost.next() != 4 {
			t.Fatalf("%d batches in progress, %d queued, next at %v, want 2, 1, 4", len(h.batches), len(h.queue), h.toHost.next())
		}
		copied, _ := h.Begin(3.5, &p)
		if h.Moving() != 5 || h.Stirred() || len(copied) != 0 {
			t.Errorf("at 3.5: %d blocks in progress, %v copied, want 5 and none", h.Moving(), copied)
		}
		copied, _ = h.Begin(c.look, &p)
		if h.Moving() != 1 || len(copied) != 4 || copied[0] != 70 || h.toHost.next() != c.last {
			t.Errorf("at %v: %d blocks in progress, %v copied, next at %v, want 1, four from 70 on, %v", c.look, h.Moving(), copied, h.toHost.next(), c.last)
		}
		copied, _ = h.Begin(c.last, &p)
		if h.Moving() != 0 || len(copied) != 1 || h.used != 5 || h.Busy() {
			t.Errorf("at %v: %d blocks in progress, %v copied, %d in host memory, want 0, one, 5", c.last, h.Moving(), copied, h.used)
		}
		h.Check()
	}
}

// Two fetches end at different times. The blocks that they read cannot be evicted until the pool calls Finish. An
// abandoned fetch arrives for no request.
func TestHostFetches(t *testing.T) {
	h := newHost(2)
	var p scheduler.Pass
	h.Begin(0, &p)
	chains(h.Catalog, []int32{0, 1}, []int32{2})
	h.storeBlock(number(h.Catalog, 1))
	h.storeBlock(number(h.Catalog, 0))
	if _, ok := h.Has(Name{index: 2}); ok {
		t.Error("block 2 is in host memory before it was stored")
	}
	b, ok := h.Has(Name{index: 0})
	if !ok || b != number(h.Catalog, 0) {
		t.Errorf("block 0 is found as %d, %v", b, ok)
	}
	h.Fetch(7, []ID{b, number(h.Catalog, 1)}, []int32{20, 21}) // 8 bytes
	h.Fetch(8, []ID{b}, []int32{22})                           // 4 bytes
	if _, ok := h.storeBlock(number(h.Catalog, 2)); ok {
		t.Error("block 2 takes the place of one that is read")
	}
	h.Abandon(8)
	if n := h.Fetching(); n != 1 || len(h.Fetches()) != 2 {
		t.Errorf("%d of %d requests wait, want 1 of 2", n, len(h.Fetches()))
	}
	_, done := h.Begin(2, &p) // half the link each: 4 bytes take 2 ms
	if len(done) != 1 || done[0].Slot != NoSlot || done[0].Places[0] != 22 || !h.Stirred() {
		t.Fatalf("at 2: %+v, want the abandoned one", done)
	}
	h.Finish(&done[0])
	p = scheduler.Pass{Start: 2, End: 2}
	if h.Linger(&p); p.End != 3 {
		t.Errorf("an empty pass ends at %v, want 3, when the other fetch ends", p.End)
	}
	_, done = h.Begin(3, &p)
	if len(done) != 1 || done[0].Slot != 7 || len(h.Fetches()) != 0 || h.Busy() {
		t.Fatalf("at 3: %+v, want the fetch for 7", done)
	}
	h.Finish(&done[0])
	if evicted, ok := h.storeBlock(number(h.Catalog, 2)); !ok || evicted != number(h.Catalog, 1) {
		t.Errorf("storing 2 evicts %d, %v, want 1", evicted, ok)
	}
	h.Check()
}
