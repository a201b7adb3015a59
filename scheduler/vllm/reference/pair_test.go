package reference_test

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// errBothStall ends a case in which neither the core nor the twin makes progress.
var errBothStall = errors.New("both stall")

// pair is a core with its twin. The core runs several passes per Step, and the twin repeats them one by one.
type pair struct {
	scheduler.Core
	twin *naive
	tree *prompt.Tree

	residency bool                    // the core reports all changes of its cache
	resident  map[prompt.NodeID]int32 // number of cached blocks by node, as reported by the core
	hashes    [][]uint64              // hashes of the blocks of every node
	names     [2]namer                // namers of the core and of the twin
	passes    int
	recent    []string
	met       map[string]bool
}

func newPair(c vllm.Config, arrivals []schedulertest.Arrival) *pair {
	p := &pair{
		Core: reference.New(c), twin: newNaive(c), tree: c.Tree,
		residency: c.PrefixCaching && c.Capture == scheduler.CaptureResidency,
		resident:  make(map[prompt.NodeID]int32),
		met:       make(map[string]bool),
	}
	p.twin.patience = differentialPatience
	for n := range prompt.NodeID(c.Tree.Len()) {
		var hashes []uint64
		for k := range int(c.Tree.Size(n)) {
			hashes = append(hashes, c.Tree.SequenceHash(n, k))
		}
		p.hashes = append(p.hashes, hashes)
	}
	known := make(map[uint64]bool)
	for _, a := range arrivals {
		local, sequence := c.Tree.Hashes(a.Request.Prompt)
		if c.PrefixCaching { // without prefix caching every block has a unique name
			local = append(local, sequence...)
		}
		for _, h := range local {
			known[h] = true
		}
	}
	p.names[0], p.names[1] = newNamer(known), newNamer(known)
	return p
}

func (p *pair) Submit(r *sim.Request) {
	p.Core.Submit(r)
	p.twin.Submit(r)
}

// Step steps the core. The twin runs the same passes in visit.
func (p *pair) Step(now, until sim.Time, pass *scheduler.Pass) error {
	if p.Load() != p.twin.Load() {
		return fmt.Errorf("load is %d, want %d", p.Load(), p.twin.Load())
	}
	err := p.Core.Step(now, until, pass)
	var stall *scheduler.StallError
	if errors.As(err, &stall) {
		if own := p.twin.Step(now, now, pass); errors.As(own, &stall) {
			p.met["stalled"] = true
			return errBothStall
		}
		return fmt.Errorf("the core stalls, the twin does not: %v", err)
	}
	p.met["run"] = p.met["run"] || pass.Count > 1
	return err
}

// visit compares a pass of the core with a pass of the twin.
func (p *pair) visit(got schedulertest.Step) error {
	var pass scheduler.Pass
	if err := p.twin.Step(got.Start, got.Start, &pass); err != nil {
		if p.twin.idle >= p.twin.patience {
			p.met["lost patience"] = true
			return errBothStall
		}
		return fmt.Errorf("the twin stalls, the core does not: %w", err)
	}
	want := schedulertest.Single(&pass, 0)
	for _, c := range got.KV {
		p.resident[c.Node] = c.Blocks
	}
	got.KV, want.KV = nil, nil
	got.Events, want.Events = p.names[0].rename(got.Events), p.names[1].rename(want.Events)
	p.recent = append(p.recent[max(0, len(p.recent)-5):], fmt.Sprintf("%+v", want))
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the core's pass is\n  %+v, the twin's\n  %+v", got, want)
	}
	p.passes++
	p.met["skipped"] = p.twin.skips > 0
	p.met["preempted"] = p.met["preempted"] || want.Preempted > 0
	for _, a := range want.Admitted {
		p.met["reused"] = p.met["reused"] || a.Reused > 0
	}
	for _, e := range want.Events {
		p.met["evicted"] = p.met["evicted"] || len(e.Removed) > 0
	}
	return p.checkResidency()
}

// checkResidency compares the blocks that the core reports as cached with the blocks of the twin.
func (p *pair) checkResidency() error {
	if !p.residency {
		return nil
	}
	for n, hashes := range p.hashes {
		blocks := int32(0)
		for k, h := range hashes {
			if p.twin.pool.cached(h) {
				if blocks++; blocks != int32(k)+1 {
					return fmt.Errorf("node %d: block %d is cached without those before", n, k)
				}
			}
		}
		if got := p.resident[prompt.NodeID(n)]; got != blocks {
			return fmt.Errorf("node %d: the core says %d blocks are cached, the twin has %d", n, got, blocks)
		}
	}
	return nil
}

// namer replaces hashes by numbers in order of appearance. Hashes of prompts are not replaced.
type namer struct {
	known map[uint64]bool
	names map[uint64]uint64
}

func newNamer(known map[uint64]bool) namer {
	return namer{known, make(map[uint64]uint64)}
}

func (n *namer) name(hash uint64) uint64 {
	if n.known[hash] {
		return hash
	}
	if _, ok := n.names[hash]; !ok {
		n.names[hash] = uint64(len(n.names))
	}
	return n.names[hash]
}

func (n *namer) rename(events []scheduler.KVEvent) []scheduler.KVEvent {
	var out []scheduler.KVEvent
	for _, e := range events {
		to := scheduler.KVEvent{HasParent: e.HasParent, Rank: e.Rank}
		if e.HasParent {
			to.Parent = n.name(e.Parent)
		}
		for _, b := range e.Stored {
			named := scheduler.KVBlock{Seq: n.name(b.Seq)}
			if n.known[b.Tokens] {
				named.Tokens = b.Tokens
			}
			to.Stored = append(to.Stored, named)
		}
		for _, h := range e.Removed {
			to.Removed = append(to.Removed, n.name(h))
		}
		out = append(out, to)
	}
	return out
}
