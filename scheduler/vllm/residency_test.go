package vllm_test

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// A core reports the same cached blocks by nodes of the tree and by events. Cached blocks are the first blocks of
// their node, and copies are not reported.
func TestResidencyIsWhatEventsTell(t *testing.T) {
	copies, changes := 0, 0
	for seed := range uint64(400) {
		d := draw(seed, []vllm.Rules{releases.Rules019(), releases.Rules033()}[seed%2])
		if d.cfg.PrefixCaching = true; d.cfg.Role == scheduler.Decode {
			d.cfg.Role = scheduler.Aggregated
		}
		byEvents, byNode := d.cfg, d.cfg
		byEvents.Capture, byNode.Capture = scheduler.CaptureEvents, scheduler.CaptureResidency
		cores := [2]scheduler.Core{build(t, byEvents), build(t, byNode)}
		names := d.treeBlocks()
		stored, counts := map[uint64]int{}, map[prompt.NodeID]int32{}
		err := d.follow(cores, func(events, nodes *scheduler.Pass) error {
			for _, e := range events.Events {
				for _, b := range e.Stored {
					if _, shared := names[b.Seq]; shared {
						if stored[b.Seq]++; (stored[b.Seq] > 1) != e.Copy {
							return fmt.Errorf("the %d. copy of a block is stored with Copy %v", stored[b.Seq], e.Copy)
						}
						copies += min(1, stored[b.Seq]-1)
					}
				}
				for _, seq := range e.Removed {
					if _, shared := names[seq]; shared {
						if stored[seq]--; (stored[seq] > 0) != e.Copy {
							return fmt.Errorf("a block with %d copies left is removed with Copy %v", stored[seq], e.Copy)
						}
					}
				}
			}
			for _, c := range nodes.KV {
				counts[c.Node] = c.Blocks
				changes++
			}
			for seq, at := range names {
				if (stored[seq] > 0) != (int32(at.index) < counts[at.node]) {
					return fmt.Errorf("block %d of node %d: %d copies by events, %d blocks of the node by residency", at.index, at.node, stored[seq], counts[at.node])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, d.cfg, err)
		}
	}
	if copies < 50 || changes < 1000 {
		t.Errorf("%d copies and %d changes, want more", copies, changes)
	}
}

// place is a block of a prompt node.
type place struct {
	node  prompt.NodeID
	index int
}

// treeBlocks returns the full blocks of all prompts in the tree, by sequence hash.
func (d *drawn) treeBlocks() map[uint64]place {
	all := map[uint64]place{}
	per := d.cfg.Tree.PerNode()
	for _, a := range d.arrivals {
		if q := a.Request; !q.Prompt.Unique() {
			for i := range int(q.Prompt.Blocks) {
				at := place{q.Prompt.Nodes[i/per], i % per}
				all[d.cfg.Tree.SequenceHash(at.node, at.index)] = at
			}
		}
	}
	return all
}

// follow runs two cores side by side and calls visit with their passes.
func (d *drawn) follow(cores [2]scheduler.Core, visit func(a, b *scheduler.Pass) error) error {
	var passes [2]scheduler.Pass
	arrivals, now := d.arrivals, sim.Time(0)
	for range 3000 {
		for ; len(arrivals) > 0 && arrivals[0].At <= now; arrivals = arrivals[1:] {
			for _, c := range cores {
				c.Submit(arrivals[0].Request)
			}
		}
		if cores[0].Load() == 0 {
			if len(arrivals) == 0 {
				return nil
			}
			now = arrivals[0].At
			continue
		}
		for i, c := range cores {
			if err := c.Step(now, now, &passes[i]); err != nil {
				return nil // a stall, which other tests check
			}
		}
		now = passes[0].End
		if err := visit(&passes[0], &passes[1]); err != nil {
			return fmt.Errorf("at %v: %w", now, err)
		}
	}
	return nil
}
