package sglang

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// The record of residency says at every moment which pages of which prompt
// nodes are in the tree, and recording changes nothing.
func TestResidency(t *testing.T) {
	changes, shrunk := 0, 0
	for seed := range 150 {
		c, traceBlock, trace := tight(DefaultRules(), rand.New(rand.NewPCG(uint64(seed), 13)))
		trace = slices.DeleteFunc(trace, func(l line) bool { return Fits(c, l.in, l.out) != nil })
		c.Capture = scheduler.CaptureNone
		var silent []string
		mustPlay(t, c, traceBlock, trace, func(_ *Core, p *scheduler.Pass) { silent = append(silent, passText(p)) })
		c.Capture = scheduler.CaptureResidency
		resident := make(map[prompt.NodeID]int32)
		mustPlay(t, c, traceBlock, trace, func(core *Core, p *scheduler.Pass) {
			if got := passText(p); got != silent[0] {
				t.Fatalf("seed %d: a pass is\n%sbut without the record\n%s", seed, got, silent[0])
			}
			silent = silent[1:]
			for _, k := range p.KV {
				changes++
				if k.Blocks < resident[k.Node] {
					shrunk++
				}
				if resident[k.Node] = k.Blocks; k.Blocks == 0 {
					delete(resident, k.Node)
				}
			}
			want := core.residentNodes()
			if len(want) != len(resident) {
				t.Fatalf("seed %d: %d prompt nodes are cached, %d were told of", seed, len(want), len(resident))
			}
			for n, blocks := range want {
				if resident[n] != blocks {
					t.Fatalf("seed %d: node %d has %d pages cached, %d were told of", seed, n, blocks, resident[n])
				}
			}
		})
		if len(silent) != 0 {
			t.Fatalf("seed %d: the record saves %d passes", seed, len(silent))
		}
	}
	if changes < 2000 || shrunk < 500 {
		t.Errorf("%d changes, %d of them fewer pages, want more", changes, shrunk)
	}
}

// residentNodes counts the cached pages of each prompt node, page by page.
func (c *Core) residentNodes() map[prompt.NodeID]int32 {
	count := make(map[prompt.NodeID]int32)
	dead := make(map[int32]bool)
	for _, n := range c.tree.free {
		dead[n] = true
	}
	for i := range int32(c.tree.len) {
		n := c.tree.at(i)
		if int32(i) == root || dead[int32(i)] || n.seq.seed > 0 {
			continue
		}
		for k := n.from; k < min(n.to, n.seq.full); k++ {
			count[n.seq.nodes[k/c.tree.perNode]]++
		}
	}
	return count
}
