package reference_test

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// busy is a core that replays a trace again and again.
type busy struct {
	core     *reference.Core
	arrivals []*sim.Request
	next     int
	now      sim.Time
	pass     scheduler.Pass
}

func newBusy(change func(*vllm.Config), joined bool) *busy {
	var lines []line
	for i := range 300 {
		ids := sequence(1, uint64(4+i%5)) // prefix shared with other requests
		ids = append(ids, sequence(uint64(1000*(i+1)), uint64(1000*(i+1)+i%17))...)
		lines = append(lines, line{in: len(ids)*64 - i%64, out: 1 + i*37%400, ids: ids})
	}
	whole, tree := arrivals(lines, 64, 16, prompt.Options{Joined: joined})
	c := plain(16)
	c.Blocks, c.MaxBatchedTokens, c.Tree = 700, 512, tree // too few blocks for all running requests
	change(&c)
	b := &busy{core: reference.New(c)}
	for _, a := range whole {
		b.arrivals = append(b.arrivals, a.Request)
	}
	return b
}

// step runs one call of Step with at least 12 unfinished requests.
func (b *busy) step() error {
	for b.core.Load() < 12 {
		b.core.Submit(b.arrivals[b.next%len(b.arrivals)])
		b.next++
	}
	if err := b.core.Step(b.now, b.now+1000, &b.pass); err != nil {
		return err
	}
	b.now = b.pass.End
	return nil
}

// TestPassDoesNotAllocate checks that passes do not allocate memory after a warmup of 20,000 steps.
func TestPassDoesNotAllocate(t *testing.T) {
	for name, change := range map[string]func(*vllm.Config){
		"plain":     func(*vllm.Config) {},
		"residency": func(c *vllm.Config) { c.Capture = scheduler.CaptureResidency },
		"uncached":  func(c *vllm.Config) { c.PrefixCaching = false },
		"prefill":   func(c *vllm.Config) { c.Role = scheduler.Prefill },
		"fifo":      func(c *vllm.Config) { c.Preemption = vllm.FIFO },
	} {
		for _, joined := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,joined=%v", name, joined), func(t *testing.T) {
				b := newBusy(change, joined)
				preempted := 0
				for range 20_000 {
					if err := b.step(); err != nil {
						t.Fatal(err)
					}
					preempted += b.pass.Preempted
				}
				if n := testing.AllocsPerRun(3000, func() {
					if err := b.step(); err != nil {
						t.Fatal(err)
					}
				}); n != 0 {
					t.Errorf("%v allocations per pass, want 0", n)
				}
				if preempted == 0 && name != "prefill" {
					t.Error("nothing was preempted: the pool is too large to say anything")
				}
			})
		}
	}
}
