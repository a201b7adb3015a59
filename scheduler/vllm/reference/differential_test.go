package reference_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// differentialPatience is the number of passes without progress after which the twin stops and the comparison of the
// case ends.
const differentialPatience = 300

// TestCoreEqualsTwin runs random small cases with the core and its twin, and compares every pass. A failure prints
// its seed; to run it alone:
//
//	REPLAY_LONG=1 go test ./scheduler/vllm/reference -run 'TestCoreEqualsTwin/^1234$'
func TestCoreEqualsTwin(t *testing.T) {
	cases := long.Cases(1000, 5000)
	met, ran := make(map[string]int), 0
	for seed := range cases {
		if t.Failed() {
			return
		}
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			ran++
			c := newCase(uint64(seed))
			if difference := c.run(met); difference != "" {
				small := c.shrink()
				t.Errorf("%s\nthe smallest case with a difference:\n%s%s", difference, small, small.run(make(map[string]int)))
			}
		})
	}
	t.Logf("cases met: %v", met)
	if ran < cases {
		return
	}
	for _, what := range []string{"preempted", "reused", "stalled", "run", "evicted", "unchunked", "fifo", "skipped", "prefill", "decode", "joined"} {
		if met[what] < cases/500 {
			t.Errorf("%q was met in %d cases, want at least %d: %v", what, met[what], cases/500, met)
		}
	}
}

// twinCase is the configuration of an engine and its requests.
type twinCase struct {
	config      vllm.Config // Tree is nil
	traceTokens int
	synthetic   bool // prompts are unique and have the length of the first line's prompt
	joined      bool // prompts are in a joined tree
	stride      schedulertest.Stride
	lines       []line
}

func (c *twinCase) String() string {
	var b strings.Builder
	shown := c.config
	shown.Tree = nil
	fmt.Fprintf(&b, "config %+v\ntrace blocks of %d tokens, synthetic %v, joined %v, stride %d\n", shown, c.traceTokens, c.synthetic, c.joined, c.stride)
	for i, l := range c.lines {
		fmt.Fprintf(&b, "  request %d at %v: %d in, %d out, %v\n", i, float64(l.at), l.in, l.out, l.ids)
	}
	return b.String()
}

// pick returns a random choice.
func pick[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }

func newCase(seed uint64) *twinCase { return drawCase(rand.New(rand.NewPCG(seed, 42))) }

func drawCase(rng *rand.Rand) *twinCase {
	size := pick(rng, 2, 4, 4, 8, 16)
	c := &twinCase{
		traceTokens: pick(rng, size, size, 2*size, 4*size, 3, 5, 12),
		stride:      pick(rng, schedulertest.OneByOne, schedulertest.UntilArrival, schedulertest.Overshoot),
		synthetic:   rng.IntN(12) == 0,
		config: vllm.Config{
			BlockTokens: size,
			Settings: vllm.Settings{
				MaxSeqs:          pick(rng, vllm.Unlimited, 256, 1, 2, 3, 5),
				MaxBatchedTokens: pick(rng, vllm.Unlimited, 8192, 8192, 1, 2, 7, 16, 20, 64),
			},
			PrefixCaching: rng.IntN(4) > 0,
		},
	}
	c.config.ChunkedPrefill = rng.IntN(4) > 0
	c.config.Preemption = pick(rng, vllm.LIFO, vllm.FIFO)
	c.config.Role = pick(rng, scheduler.Aggregated, scheduler.Aggregated, scheduler.Prefill, scheduler.Decode)
	c.config.Capture = pick(rng, scheduler.CaptureNone, scheduler.CaptureResidency, scheduler.CaptureEvents)
	c.config.Clock = timing.Clock{
		Model:         timing.Polynomial{},
		Speedup:       pick(rng, 1, 1, 1, 0, 3, 0.7, 1000, 1e300),
		DecodeSpeedup: pick(rng, 1, 1, 0, 2.5, 1e6),
	}
	if rng.IntN(4) == 0 {
		c.config.Clock.Model = workedProfile(1, 3, 11.7, 30.1, 95.3)
	}
	if c.config.Role == scheduler.Prefill {
		c.config.Transfer = scheduler.Transfer{GBPerSecond: 1.5, BytesPerToken: 100_000}
	}
	c.drawLines(rng)
	c.drawPool(rng)
	if rng.IntN(4) == 0 {
		c.lackBlocks(rng)
	}
	c.moveToPassEnds(rng)
	c.joined = rng.IntN(2) == 0
	return c
}

// drawLines draws prompts with common prefixes, which often arrive together.
func (c *twinCase) drawLines(rng *rand.Rand) {
	at := sim.Time(0)
	longest := pick(rng, 1, 3, 12)
	variety := pick(rng, 1, 2, 5)
	answer := pick(rng, 1, 3, 12, 60)
	gap := pick(rng, 5, 40, 400)
	for range 1 + rng.IntN(pick(rng, 3, 8, 20)) {
		if rng.IntN(3) > 0 {
			at += sim.Time(rng.IntN(64*gap)) / 64
		}
		l := line{at: at, out: 1 + rng.IntN(answer)}
		l.ids = make([]uint64, 1+rng.IntN(longest))
		for i := range l.ids {
			l.ids[i] = uint64(rng.IntN(variety))
		}
		whole := len(l.ids) * c.traceTokens
		l.in = whole - rng.IntN(c.traceTokens)
		if rng.IntN(3) == 0 {
			l.in = whole
		}
		if c.config.Role == scheduler.Prefill {
			l.out = 1
		}
		if rng.IntN(400) == 0 {
			l.out = 0
		}
		c.lines = append(c.lines, l)
	}
	if c.synthetic {
		for i := range c.lines {
			c.lines[i].in = c.lines[0].in
		}
	}
}

// drawPool draws a pool size, mostly just enough for the largest request.
func (c *twinCase) drawPool(rng *rand.Rand) {
	largest := 0
	for _, l := range c.lines {
		largest = max(largest, cdiv(l.in+l.out, c.config.BlockTokens))
	}
	c.config.Blocks = largest + pick(rng, 0, 1, 2, rng.IntN(2*largest+1), 1000)
	if rng.IntN(200) == 0 {
		c.config.Blocks = max(1, largest-1)
	}
}

// lackBlocks makes a case with many cached prompts, and prompts that are computed in chunks and lack blocks, so that
// passes skip requests.
func (c *twinCase) lackBlocks(rng *rand.Rand) {
	size := c.config.BlockTokens
	c.synthetic, c.traceTokens = false, size
	c.config.PrefixCaching, c.config.ChunkedPrefill = true, true
	c.config.MaxSeqs, c.config.MaxBatchedTokens = vllm.Unlimited, size*(1+rng.IntN(4))
	c.config.Preemption = pick(rng, vllm.FIFO, vllm.FIFO, vllm.LIFO)
	c.lines = nil
	at, largest, total := sim.Time(0), 0, 0
	for i := range 4 + rng.IntN(8) {
		at += sim.Time(rng.IntN(2) * rng.IntN(30))
		l := line{at: at, out: 1 + rng.IntN(30), ids: sequence(1, uint64(1+rng.IntN(3)))}
		if c.config.Role == scheduler.Prefill {
			l.out = 1
		}
		if rng.IntN(3) == 0 {
			l.ids = sequence(uint64(100*i), uint64(100*i+2+rng.IntN(10)))
		}
		l.in = len(l.ids) * size
		c.lines = append(c.lines, l)
		largest = max(largest, cdiv(l.in+l.out, size))
		total += cdiv(l.in+l.out, size)
	}
	c.config.Blocks = largest + rng.IntN(max(1, total/3))
}

// moveToPassEnds moves the arrivals of some requests to exact ends of passes.
func (c *twinCase) moveToPassEnds(rng *rand.Rand) {
	if rng.IntN(3) > 0 || len(c.lines) < 2 {
		return
	}
	arrivals, config := c.open()
	twin := newNaive(config)
	twin.patience = differentialPatience
	var ends []sim.Time
	_ = schedulertest.Replay(twin, arrivals, schedulertest.OneByOne, func(s schedulertest.Step) error {
		ends = append(ends, s.End)
		return nil
	})
	if len(ends) == 0 {
		return
	}
	for i := range c.lines {
		if rng.IntN(2) == 0 {
			c.lines[i].at = ends[rng.IntN(len(ends))]
		}
	}
	slices.SortStableFunc(c.lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
}

func (c *twinCase) open() ([]schedulertest.Arrival, vllm.Config) {
	config := c.config
	if !c.synthetic {
		out, tree := arrivals(c.lines, c.traceTokens, config.BlockTokens, prompt.Options{Joined: c.joined})
		config.Tree = tree
		return out, config
	}
	config.Tree = prompt.NewTree(config.BlockTokens, config.BlockTokens, prompt.Options{})
	prompts := config.Tree.AddSynthetic(len(c.lines), c.lines[0].in)
	out := make([]schedulertest.Arrival, len(c.lines))
	for i, l := range c.lines {
		out[i] = schedulertest.Arrival{At: l.at, Request: &sim.Request{
			ID: sim.RequestID(i), InputTokens: l.in, OutputTokens: l.out, Prompt: prompts.At(i),
		}}
	}
	return out, config
}

// shrink removes requests as long as a difference remains.
func (c *twinCase) shrink() *twinCase {
	for i := 0; i < len(c.lines); {
		smaller := *c
		smaller.lines = slices.Delete(slices.Clone(c.lines), i, i+1)
		if len(smaller.lines) > 0 && smaller.run(make(map[string]int)) != "" {
			c, i = &smaller, 0
		} else {
			i++
		}
	}
	return c
}

// run returns the difference between the core and the twin, or "" if there is none. run counts events of the case in
// met.
func (c *twinCase) run(met map[string]int) (difference string) {
	defer func() {
		if r := recover(); r != nil {
			difference = fmt.Sprintf("panic: %v", r)
		}
	}()
	arrivals, config := c.open()
	p := newPair(config, arrivals)
	err := schedulertest.Replay(p, arrivals, c.stride, p.visit)
	c.tally(p, met)
	if err != nil && !errors.Is(err, errBothStall) {
		return fmt.Sprintf("pass %d: %v\nthe passes before:\n  %s\n", p.passes, err, strings.Join(p.recent, "\n  "))
	}
	return ""
}

// tally counts events of the case.
func (c *twinCase) tally(p *pair, met map[string]int) {
	p.met["joined"] = p.tree.PerNode() == 0 && p.met["evicted"]
	p.met["unchunked"] = !c.config.ChunkedPrefill
	p.met["fifo"] = c.config.Preemption == vllm.FIFO && p.met["preempted"]
	p.met["prefill"] = c.config.Role == scheduler.Prefill
	p.met["decode"] = c.config.Role == scheduler.Decode
	for what, is := range p.met {
		if is {
			met[what]++
		}
	}
}
