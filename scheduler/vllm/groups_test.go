package vllm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
	"github.com/replay-llm/replay/sim/prompt"
)

// drawWindows draws an engine with windows in some layers, with as many blocks as their groups need or a few more.
func drawWindows(seed uint64, rules vllm.Rules) drawn {
	d := draw(seed, rules)
	rng := rand.New(rand.NewPCG(seed, 11))
	largest := 0
	for _, a := range d.arrivals {
		largest = max(largest, a.Request.InputTokens+a.Request.OutputTokens)
	}
	w := vllm.Windows{Tokens: 2 + rng.IntN(largest), Groups: 1 + rng.IntN(3), Full: 1 + rng.IntN(5)/4}
	switch rng.IntN(6) {
	case 0:
		w.Chunked, w.Tokens = true, d.cfg.BlockTokens*(1+rng.IntN(5))
	case 1:
		w.Full = 0
	case 2:
		w.Tokens = 2 + rng.IntN(3*d.cfg.BlockTokens)
	}
	w.FullFirst = rng.IntN(2) == 0
	d.cfg.Windows = w
	need := largest/d.cfg.BlockTokens + 1
	d.cfg.Blocks = 1 + w.Full*need + w.Groups*(1+rng.IntN(need)) + rng.IntN(12)
	for _, a := range d.arrivals {
		for d.cfg.Fits(a.Request.InputTokens, a.Request.OutputTokens) != nil {
			d.cfg.Blocks++
		}
	}
	return d
}

// With windows in layers, the core equals its twin pass by pass.
func TestWindowsDifferential(t *testing.T) {
	cases := long.Cases(uint64(300), 1500)
	for name, rules := range map[string]vllm.Rules{"0.19": releases.Rules019(), "0.20": releases.Rules020(), "0.24": releases.Rules024(), "0.33": releases.Rules033()} {
		var seen fate
		for seed := range cases {
			d := drawWindows(seed, rules)
			d.cfg.Rules.TwoInFlight, d.cfg.Rules.Watermark = seed%3 > 0, float64(seed%5/4)/10
			if err := d.compare(build(t, d.cfg), newTwin(d.cfg), &seen); err != nil {
				t.Fatalf("%s, seed %d: %+v\n%v", name, seed, d.cfg, err)
			}
		}
		if n := int(cases); seen.preempted < n/2 || seen.reused < n || seen.cut < n/4 || seen.stalled > n/50 {
			t.Errorf("%s: %+v in %d cases, want more of everything, and fewer stalls", name, seen, n)
		}
	}
}

// An engine with windows passes the suite of all cores, with blocks for two groups.
func TestWindowsSuite(t *testing.T) {
	for _, w := range []vllm.Windows{{Tokens: 6, Groups: 1, Full: 1}, {Tokens: 8, Chunked: true, Groups: 1, Full: 1}} {
		schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core {
			c := config(s, releases.Rules033())
			c.Windows, c.Blocks = w, 2*s.Blocks
			return build(t, c)
		})
	}
}

// Invalid groups are rejected.
func TestWindowsRefused(t *testing.T) {
	plain := draw(1, releases.Rules033()).cfg
	for name, change := range map[string]func(*vllm.Config){
		"no group":  func(c *vllm.Config) { c.Windows = vllm.Windows{Tokens: 8} },
		"many":      func(c *vllm.Config) { c.Windows = vllm.Windows{Tokens: 8, Groups: 20, Full: 1} },
		"no window": func(c *vllm.Config) { c.Windows = vllm.Windows{Groups: 1, Full: 1} },
		"short":     func(c *vllm.Config) { c.Windows = vllm.Windows{Tokens: 1, Groups: 1} },
		"chunks":    func(c *vllm.Config) { c.Windows = vllm.Windows{Tokens: 3, Chunked: true, Groups: 1} },
		"reference": func(c *vllm.Config) { c.Windows, c.Rules = vllm.Windows{Tokens: 8, Groups: 1}, vllm.Rules{} },
		"residency": func(c *vllm.Config) {
			c.Windows, c.Capture = vllm.Windows{Tokens: 8, Groups: 1}, scheduler.CaptureResidency
		},
	} {
		c := plain
		change(&c)
		if _, err := vllm.New(c); err == nil {
			t.Errorf("%s: %+v is not refused", name, c.Windows)
		}
	}
}

// vLLM uses groups of the size of the less frequent kind of layers, or two groups if both kinds are almost equally
// frequent. The results were read from vLLM by tools/vllmoracle.
func TestGroupLayers(t *testing.T) {
	for _, c := range []struct {
		windowed, full int
		want           string
	}{
		{22, 4, "6 1"}, {40, 8, "5 1"}, {52, 10, "6 1"}, {29, 5, "6 1"}, {12, 12, "1 1"}, {36, 12, "3 1"}, {32, 0, "1 0"},
		{5, 4, "1 1"}, {7, 5, "1 1"}, {6, 4, "2 1"}, {3, 2, "2 1"}, {4, 5, "1 1"}, {8, 11, "1 1"}, {8, 12, "1 2"}, {3, 1, "3 1"},
	} {
		groups, others := windows.GroupLayers(c.windowed, c.full)
		if got := fmt.Sprint(groups, others); got != c.want {
			t.Errorf("%d layers with windows and %d others: groups %s, want %s", c.windowed, c.full, got, c.want)
		}
	}
}

// Every group publishes its blocks. Without copies, events report the blocks of the last group, which has no window,
// and residency reports the same blocks of the tree.
func TestWindowsEvents(t *testing.T) {
	changes := 0
	for seed := range uint64(400) {
		d := drawWindows(seed, []vllm.Rules{releases.Rules019(), releases.Rules033()}[seed%2])
		d.cfg.PrefixCaching, d.cfg.Role = true, scheduler.Aggregated
		d.cfg.Windows.Full = max(1, d.cfg.Windows.Full)
		d.cfg.Blocks *= 2
		byEvents, byNode := d.cfg, d.cfg
		byEvents.Capture, byNode.Capture = scheduler.CaptureEvents, scheduler.CaptureResidency
		names, all, told, counts := d.treeBlocks(), map[uint64]int{}, map[uint64]int{}, map[prompt.NodeID]int32{}
		err := d.follow([2]scheduler.Core{build(t, byEvents), build(t, byNode)}, func(p, nodes *scheduler.Pass) error {
			for _, e := range p.Events {
				for _, b := range e.Stored {
					if all[b.Seq]++; !e.Copy {
						told[b.Seq]++
					}
				}
				for _, seq := range e.Removed {
					if all[seq]--; !e.Copy {
						told[seq]--
					}
				}
			}
			for _, c := range nodes.KV {
				counts[c.Node] = c.Blocks
				changes++
			}
			for seq, n := range told {
				if n < 0 || n > 1 || n > all[seq] {
					return fmt.Errorf("block %x is told %d times, of %d in all groups", seq, n, all[seq])
				}
			}
			for seq, at := range names {
				if (told[seq] > 0) != (int32(at.index) < counts[at.node]) {
					return fmt.Errorf("block %d of node %d: told %d times by events, %d blocks of the node by residency", at.index, at.node, told[seq], counts[at.node])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, d.cfg, err)
		}
	}
	if changes < 1000 {
		t.Errorf("%d changes, want more", changes)
	}
}
