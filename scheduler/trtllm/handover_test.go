package trtllm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// worker is a core of a prefill or decode pool, with unique prompts.
type worker struct {
	t    *testing.T
	core *Core
	tree *prompt.Tree
	now  sim.Time
	next int
	pass scheduler.Pass
}

func newWorker(t *testing.T, blocks int, change func(*Config)) *worker {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	return &worker{t: t, tree: tree, core: build(t, schedulertest.Setup{Tree: tree, BlockTokens: 4, Blocks: blocks, MaxSeqs: 4, MaxBatchedTokens: 64}, change)}
}

func (w *worker) submit(input, output int) {
	w.next++
	w.core.Submit(&sim.Request{ID: sim.RequestID(w.next), InputTokens: input, OutputTokens: output, Prompt: prompt.Prompt{Seed: int32(w.next)}})
}

// step runs a pass and returns a description: its duration, the admitted requests, and first and last tokens.
func (w *worker) step() string {
	w.t.Helper()
	if err := w.core.Step(w.now, w.now, &w.pass); err != nil {
		w.t.Fatal(err)
	}
	p := &w.pass
	if p.Blocked {
		return "blocked"
	}
	text := "no time"
	if p.End > p.Start {
		text = "a pass"
	}
	for _, a := range p.Admitted {
		text += fmt.Sprintf(", %d admitted", a.Request)
	}
	text += fmt.Sprintf(", %d tokens", p.Tokens)
	for _, m := range p.Marks {
		if m.Last {
			text += fmt.Sprintf(", %d ends", m.Request)
		}
	}
	w.now = p.End
	return text + fmt.Sprintf(", %d free", w.core.pool.free)
}

func (w *worker) expect(want ...string) {
	w.t.Helper()
	var got []string
	for range want {
		got = append(got, w.step())
	}
	if x, y := strings.Join(got, "\n"), strings.Join(want, "\n"); x != y {
		w.t.Errorf("got\n%s\nwant\n%s", x, y)
	}
}

// A decode worker delivers the first token of a prompt that was sent before the first pass, which computes the second
// token. The decode worker reserves the blocks of the whole answer. The first request without enough blocks makes all
// later requests wait.
func TestDecodeWorkerReserves(t *testing.T) {
	w := newWorker(t, 6, func(c *Config) { c.Role = scheduler.Decode })
	w.submit(8, 5) // 4 blocks
	w.submit(8, 4) // 3 blocks
	w.submit(4, 4) // 2 blocks
	w.submit(4, 1) // 2 blocks
	w.expect(
		"no time, 1 admitted, 1 tokens, 3 free",
		"a pass, 1 tokens, 3 free",
		"a pass, 1 tokens, 3 free",
		"a pass, 1 tokens, 3 free",
		"a pass, 1 tokens, 1 ends, 6 free",
		"no time, 2 admitted, 3 admitted, 2 tokens, 1 free",
	)
	if n := w.core.Room(); n != -1 { // 6 blocks, minus 3 and 2 reserved blocks, minus 2 for the waiting request
		t.Errorf("room for %d blocks", n)
	}
	w.expect(
		"a pass, 2 tokens, 1 free",
		"a pass, 2 tokens, 1 free",
		"a pass, 2 tokens, 2 ends, 3 ends, 6 free",
		"no time, 4 admitted, 1 tokens, 4 ends, 6 free",
	)
}

// With MAX_UTILIZATION only the blocks of the prompt are required, and a paused request computes its prompt again.
func TestDecodeWorkerPauses(t *testing.T) {
	w := newWorker(t, 4, func(c *Config) { c.Role, c.Policy, c.Overlap = scheduler.Decode, MaxUtil, false })
	w.submit(7, 6)
	w.submit(7, 6)
	w.expect("no time, 1 admitted, 2 admitted, 2 tokens, 0 free", "a pass, 2 tokens, 0 free", "a pass, 1 tokens, 1 free")
	if w.pass.Preempted != 1 {
		t.Errorf("%d requests are paused", w.pass.Preempted)
	}
	prompt := 0
	for w.core.Load() > 0 {
		w.step()
		prompt += w.pass.PrefillTokens
	}
	if prompt == 0 {
		t.Error("the paused request computes nothing of its prompt")
	}
}

// A prefill worker keeps the blocks of a prompt until its transfer ends. The request leaves with its first token. If
// no prompt fits, the worker waits until the first transfer ends.
func TestPrefillWorkerKeepsBlocks(t *testing.T) {
	slow := func(c *Config) { c.Role, c.Reuse, c.Transfer.Latency = scheduler.Prefill, false, 100 }
	w := newWorker(t, 5, slow)
	w.submit(8, 1)
	w.submit(8, 1)
	w.expect("a pass, 1 admitted, 1 tokens, 1 ends, 3 free")
	if d := w.pass.Marks[0].Handoff; d != 100 || w.core.Load() != 1 {
		t.Errorf("handoff of %v ms, load %d", d, w.core.Load())
	}
	sent := w.now
	w.expect("a pass, 2 admitted, 1 tokens, 2 ends, 1 free")
	w.submit(8, 1)
	w.expect("a pass, 0 tokens, 3 free") // the worker waits
	if w.now != sent+100 {
		t.Errorf("the wait ends at %v ms, want %v", w.now, sent+100)
	}
	w.expect("a pass, 3 admitted, 1 tokens, 3 ends, 1 free")

	w = newWorker(t, 5, func(c *Config) { slow(c); c.KeepSent = true })
	w.submit(16, 1)
	w.submit(8, 1)
	w.expect("a pass, 1 admitted, 1 tokens, 1 ends, 1 free", "blocked")
	if !w.core.Release(1) || w.core.Release(1) {
		t.Error("the blocks of request 1 must come back once")
	}
	w.expect("a pass, 2 admitted, 1 tokens, 2 ends, 3 free")
}
