package vllm_test

import (
	"math"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// If the name of a block includes the next token, events report the content without the next token. The content is
// stored with its first block and removed with its last block, for any next token.
func TestAheadEvents(t *testing.T) {
	copies, removed := 0, 0
	for seed := range uint64(400) {
		d := drawDrafts(seed)
		d.cfg.Rules.HashAhead, d.cfg.PrefixCaching, d.cfg.Capture = true, true, scheduler.CaptureEvents
		d.cfg.Speculation.Method = scheduler.ByHead
		blocks := make(map[uint64]int)
		d.drive(t, func(e *scheduler.KVEvent) {
			for _, b := range e.Stored {
				if (blocks[b.Seq] > 0) != e.Copy {
					t.Fatalf("seed %d: %d blocks of %d when one is stored, copy %t", seed, blocks[b.Seq], b.Seq, e.Copy)
				}
				blocks[b.Seq]++
				if e.Copy {
					copies++
				}
			}
			for _, hash := range e.Removed {
				blocks[hash]--
				if blocks[hash] < 0 || (blocks[hash] > 0) != e.Copy {
					t.Fatalf("seed %d: %d blocks of %d are left when one is removed, copy %t", seed, blocks[hash], hash, e.Copy)
				}
				removed++
			}
		})
	}
	if copies < 100 || removed < 100 {
		t.Errorf("%d copies, %d removed", copies, removed)
	}
}

// drive runs the requests as far as possible and calls each with the events.
func (d *drawn) drive(t *testing.T, each func(*scheduler.KVEvent)) {
	t.Helper()
	core, err := vllm.New(d.cfg)
	if err != nil {
		t.Fatal(err)
	}
	arrivals, now := d.arrivals, sim.Time(0)
	p := scheduler.Pass{Detail: new(scheduler.Detail)}
	for passes := 0; passes < 3000; passes++ {
		for ; len(arrivals) > 0 && arrivals[0].At <= now; arrivals = arrivals[1:] {
			core.Submit(arrivals[0].Request)
		}
		if core.Load() == 0 {
			if len(arrivals) == 0 {
				return
			}
			now = arrivals[0].At
			continue
		}
		until := sim.Time(math.Inf(1))
		if len(arrivals) > 0 {
			until = arrivals[0].At
		}
		if err := core.Step(now, until, &p); err != nil {
			return
		}
		for i := range p.Events {
			each(&p.Events[i])
		}
		now = p.End
	}
}
