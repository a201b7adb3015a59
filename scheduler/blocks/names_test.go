package blocks

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Blocks of shared content have the same names for all requests. A unique prompt's blocks are named by its content
// until its request ends, and generated blocks by a separate number.
func TestNames(t *testing.T) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	shared := sim.Request{ID: 1, InputTokens: 8, Prompt: tree.Add([]uint64{5, 6}, 8)}
	unique := sim.Request{ID: 2, InputTokens: 8, Prompt: prompt.Prompt{Seed: 9, Blocks: 2}}
	local, sequence := tree.Hashes(unique.Prompt)
	n := NewNames(tree, true)
	n.Add(&shared)
	n.Add(&unique)
	if n.Hashed(1) || !n.Hashed(2) {
		t.Error("only the unique prompt names blocks of its request's own")
	}
	if got := n.Path(shared.Prompt.Nodes, 1); got != tree.SequenceHash(shared.Prompt.Nodes[1], 0) {
		t.Errorf("block 1 of the shared prompt is %x", got)
	}
	if n.Tokens(1, 1) != tree.LocalHash(shared.Prompt.Nodes[1], 0) || n.Tokens(2, 1) != local[1] {
		t.Error("tokens of prompts are not named by what they are")
	}
	if n.Own(2, 1) != sequence[1] || n.Own(2, 2)>>63 != 1 || n.Own(2, 2) == n.Own(1, 2) || n.Own(2, 2) == n.Own(2, 3) {
		t.Error("blocks of a request's own")
	}
	for id := sim.RequestID(1); id <= 2; id++ {
		if n.Tokens(id, 2)>>62 != 3 {
			t.Errorf("generated tokens of request %d are named as those of a prompt", id)
		}
	}
	if n.Remove(2); n.Own(2, 1) == sequence[1] {
		t.Error("a request that is gone still names blocks by its prompt")
	}
	if n.Tokens(2, 1) != OwnTokens(2, 1) {
		t.Error("tokens of a request that is gone are named by what they are")
	}
	if n.Remove(1); n.PathTokens(shared.Prompt.Nodes, 1) != tree.LocalHash(shared.Prompt.Nodes[1], 0) {
		t.Error("a path of a request that is gone is named otherwise")
	}
	alone := NewNames(tree, false)
	if alone.Add(&unique); alone.Hashed(2) || alone.Own(2, 1) == sequence[1] || alone.Tokens(2, 1) != local[1] {
		t.Error("without a prefix cache each block has a name of its own")
	}
}

// The host reports stored and evicted blocks only if events are captured.
func TestHostEvents(t *testing.T) {
	for _, capture := range []scheduler.Capture{scheduler.CaptureNone, scheduler.CaptureEvents} {
		h := NewHost(Offload{Blocks: 1, BytesPerToken: 1, BatchBlocks: 1}, 4, capture)
		var p scheduler.Pass
		h.Begin(0, &p)
		for i := range int32(2) {
			b, isNew := h.Catalog.Add(nodeName(prompt.NodeID(i), 0), NoBlock)
			if !isNew || !h.Wants(b) {
				t.Fatal("a block that is nowhere is wanted")
			}
			h.Catalog.At(b).Hashes = Hashes{KVBlock: scheduler.KVBlock{Seq: 70 + uint64(i)}, Parent: 7, Follows: i == 1}
			h.Send(b)
			if h.Wants(b) || !h.Catalog.At(b).Sending() {
				t.Fatal("a block on its way is wanted")
			}
			h.Flush()
			h.Begin(sim.Time(1+i), &p)
		}
		if capture == scheduler.CaptureNone {
			if len(p.Events) != 0 {
				t.Errorf("%+v, want nothing told", p.Events)
			}
			continue
		}
		if len(p.Events) != 3 || p.Events[0].Stored[0].Seq != 70 || p.Events[0].HasParent ||
			p.Events[1].Removed[0] != 70 || p.Events[2].Stored[0].Seq != 71 || p.Events[2].Parent != 7 || p.Events[2].Tier != scheduler.HostPinned {
			t.Errorf("%+v", p.Events)
		}
		if h.Check(); h.Catalog.Find(nodeName(0, 0)) != NoBlock {
			t.Error("an evicted block is still known")
		}
	}
}

// An empty pass lasts until the first transfer of either link ends.
func TestLinger(t *testing.T) {
	for _, c := range []struct{ sent, fetched int }{{3, 1}, {1, 3}, {2, 0}, {0, 2}} {
		h := NewHost(Offload{Blocks: 9, BytesPerToken: 1, BatchBlocks: 9, ToHostGBPerSecond: 4e-6, ToGPUGBPerSecond: 4e-6}, 4, scheduler.CaptureNone)
		var p scheduler.Pass
		h.Begin(0, &p)
		chains(h.Catalog, []int32{0, 1, 2, 3, 4, 5})
		var fetched []ID
		for i := range int32(c.fetched) {
			h.storeBlock(number(h.Catalog, i))
			fetched = append(fetched, number(h.Catalog, i))
		}
		if c.fetched > 0 {
			h.Fetch(1, fetched, nil)
		}
		for i := range int32(c.sent) {
			h.Send(number(h.Catalog, 3+i))
		}
		h.Flush()
		want := sim.Time(min(c.sent, c.fetched)) // 1 ms per block
		if want == 0 {
			want = 2
		}
		if h.Linger(&p); p.End != want || !h.Stirred() {
			t.Errorf("%d sent, %d fetched: the pass ends at %v, want %v", c.sent, c.fetched, p.End, want)
		}
		for _, busy := range []scheduler.Pass{{End: 1}, {Tokens: 1}} {
			end := busy.End
			if h.Linger(&busy); busy.End != end {
				t.Error("a pass that did something lasts longer")
			}
		}
	}
}
