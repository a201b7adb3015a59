package reference

import (
	"testing"

	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Three blocks of a chain in a host for two: they come tail first, as the GPU
// evicts them. What is read stays, what is there is not stored again.
func TestHostPool(t *testing.T) {
	k := newCatalog()
	chains(&k, []int32{0, 1, 2}, []int32{3})
	h := newHostPool(2, &k)
	store := func(i, evicts int32, stored bool) {
		t.Helper()
		want := noBlock
		if evicts >= 0 {
			want = number(&k, evicts)
		}
		if got, ok := h.store(number(&k, i)); got != want || ok != stored {
			t.Errorf("store %d: evicts %d, stored %v, want %d, %v", i, got, ok, want, stored)
		}
		h.idle.check("host")
	}
	const nothing = -1
	store(2, nothing, true)
	store(1, nothing, true)
	store(1, nothing, false) // is there
	store(3, 2, true)        // the leaf of the chain goes, though 1 is younger
	h.pin(number(&k, 1))
	store(0, 3, true) // 1 is read
	h.pin(number(&k, 0))
	store(3, nothing, false) // nothing may go
	h.pin(number(&k, 1))
	h.unpin(number(&k, 1))
	store(3, nothing, false) // 1 has one more reader
	h.unpin(number(&k, 1))
	store(3, 1, true)
}

// A burst of five blocks goes in batches of two, two at once: 4 bytes a block
// at 4 bytes per ms. The third batch starts at the first pass after a place on
// the link is free.
func TestOffloadPipeline(t *testing.T) {
	for _, c := range []struct {
		look, last sim.Time // when the second pass starts, when all have arrived
	}{{4, 5}, {10, 11}} {
		tree := prompt.NewTree(4, 4, prompt.Options{})
		core := New(vllm.Config{Blocks: 8, BlockTokens: 4, Tree: tree, Offload: vllm.Offload{
			Blocks: 100, BytesPerToken: 1, BatchBlocks: 2, ToHostGBPerSecond: 4e-6,
		}})
		o := core.offload
		chains(&o.catalog, []int32{0, 1, 2, 3, 4})
		o.begin(0)
		o.pool.free -= 5
		for i := range int32(5) {
			b := number(&o.catalog, 4-i)
			o.catalog.blocks[b].sending = true
			o.burst = append(o.burst, b)
			o.moving++
		}
		o.send()
		if len(o.batches) != 2 || len(o.queue) != 1 || o.toHost.next() != 4 {
			t.Fatalf("%d batches under way, %d queued, next at %v, want 2, 1, 4", len(o.batches), len(o.queue), o.toHost.next())
		}
		o.begin(3.5)
		if o.moving != 5 || o.stirred {
			t.Errorf("at 3.5: %d blocks under way, want 5", o.moving)
		}
		o.begin(c.look)
		if o.moving != 1 || o.pool.free != 7 || o.toHost.next() != c.last {
			t.Errorf("at %v: %d blocks under way, %d free, next at %v, want 1, 7, %v", c.look, o.moving, o.pool.free, o.toHost.next(), c.last)
		}
		o.begin(c.last)
		if o.moving != 0 || o.pool.free != 8 || o.host.used != 5 || o.busy() {
			t.Errorf("at %v: %d blocks under way, %d free, %d in host memory, want 0, 8, 5", c.last, o.moving, o.pool.free, o.host.used)
		}
		o.check()
	}
}
