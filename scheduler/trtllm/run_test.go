package trtllm

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// drawLong draws an engine, and requests with long answers, to produce long runs.
func drawLong(t *testing.T, seed uint64) (c Config, arrivals []schedulertest.Arrival) {
	t.Helper()
	g := rand.New(rand.NewPCG(seed, 31))
	c = drawConfig(g)
	c.BlockTokens = 4 << g.IntN(4)
	c.Blocks, c.MaxTokens, c.MaxBatch, c.MaxLength = 2000/c.BlockTokens, 40+g.IntN(200), 2+g.IntN(12), g.IntN(2)*300
	if c.Policy == MaxUtil {
		c.Blocks = 400 / c.BlockTokens
	}
	c.Role = []scheduler.Role{scheduler.Aggregated, scheduler.Aggregated, scheduler.Decode}[g.IntN(3)]
	if c.Host.Blocks > 0 {
		c.Host.BytesPerToken, c.Host.ToHostGBPerSecond, c.Host.ToGPUGBPerSecond = 1000, []float64{0, 0.001, 0.1}[g.IntN(3)], []float64{0, 0.001, 0.1}[g.IntN(3)]
	}
	c.Capture, c.Tree = []scheduler.Capture{scheduler.CaptureResidency, scheduler.CaptureEvents}[g.IntN(2)], prompt.NewTree(2*c.BlockTokens, c.BlockTokens, prompt.Options{})
	c.Clock = timing.Clock{Speedup: 1, DecodeSpeedup: 1, Model: &timing.Parameters{
		Base: 0.002, Token: 1e-5, Context: 1e-6, Mixed: 2e-6, Pair: 1e-8, Request: 1e-5,
	}}
	if g.IntN(4) == 0 {
		c.Clock.Model = timing.Polynomial{}
	}
	at := sim.Time(0)
	for id := range 1 + g.IntN(16) {
		at += sim.Time(g.IntN(8)*g.IntN(400)) / 8
		r := &sim.Request{ID: sim.RequestID(id), Arrived: at, InputTokens: 1 + g.IntN(39), OutputTokens: 1 + g.IntN(150)}
		r.Prompt = c.Tree.Add([]uint64{uint64(g.IntN(2)), uint64(g.IntN(2)), 2, 3, uint64(id)}[:countBlocks(r.InputTokens, 2*c.BlockTokens)], r.InputTokens)
		arrivals = append(arrivals, schedulertest.Arrival{At: at, Request: r})
	}
	return c, arrivals
}

// twins are two cores with the same requests, of which only one runs several passes per Step.
type twins struct {
	g           *rand.Rand
	fast, plain *Core
	now         sim.Time
	got, want   scheduler.Pass

	passes, steps, cut int
}

// Runs of passes, cut anywhere, equal the single passes.
func TestRunsAreTheirPasses(t *testing.T) {
	cases := long.Cases(uint64(150), 2000)
	var passes, steps, cut int
	for seed := range cases {
		c, arrivals := drawLong(t, seed)
		x := twins{g: rand.New(rand.NewPCG(seed, 32))}
		for _, core := range []**Core{&x.fast, &x.plain} {
			var err error
			if *core, err = New(c); err != nil {
				t.Fatal(err)
			}
		}
		x.got.Detail, x.want.Detail = new(scheduler.Detail), new(scheduler.Detail)
		if err := x.replay(arrivals); err != nil {
			t.Fatalf("seed %d, at %v: %+v\n%v", seed, x.now, c, err)
		}
		passes, steps, cut = passes+x.passes, steps+x.steps, cut+x.cut
	}
	if n := int(cases); 2*passes < 3*steps || cut < 2*n {
		t.Errorf("%d passes in %d steps, %d cut: too few", passes, steps, cut)
	}
}

// replay submits the requests to both cores, and cancels some.
func (x *twins) replay(arrivals []schedulertest.Arrival) error {
	for {
		next := sim.Time(math.Inf(1))
		for len(arrivals) > 0 && arrivals[0].At <= x.now {
			x.fast.Submit(arrivals[0].Request)
			x.plain.Submit(arrivals[0].Request)
			arrivals = arrivals[1:]
		}
		if len(arrivals) > 0 {
			next = arrivals[0].At
		}
		if x.fast.Load() == 0 {
			if len(arrivals) == 0 {
				return nil
			}
			x.now = next
			continue
		}
		if stuck, err := x.step(next); err != nil || stuck {
			return err
		}
		if x.now = x.got.End; x.g.IntN(40) == 0 {
			id := sim.RequestID(x.g.IntN(16))
			a, b := x.fast.Cancel(x.now, id, &x.got), x.plain.Cancel(x.now, id, &x.want)
			if a != b {
				return fmt.Errorf("request %d is cancelled: %v and %v", id, a, b)
			}
		}
	}
}

// step runs one core for a run of passes, which it cuts, and the other core for the same passes. step reports whether
// nothing can run.
func (x *twins) step(next sim.Time) (stuck bool, err error) {
	until := next
	if x.g.IntN(2) == 0 {
		until = x.now + sim.Time(x.g.IntN(300))
	}
	if err := x.fast.Step(x.now, until, &x.got); err != nil {
		if other := x.plain.stepOnce(x.now, &x.want); other == nil || other.Error() != err.Error() {
			return true, fmt.Errorf("%w, and pass by pass %w", err, other)
		}
		return true, nil
	}
	keep := x.got.Count
	for keep > 1 && (x.got.Begins(keep-1) >= next || x.g.IntN(10) == 0) {
		keep--
	}
	if keep < x.got.Count {
		x.fast.Cut(&x.got, keep)
		x.cut++
	}
	x.steps++
	at := x.now
	for i := range x.got.Count {
		if err := x.plain.stepOnce(at, &x.want); err != nil {
			return true, err
		}
		if err := x.comparePass(i); err != nil {
			return true, fmt.Errorf("pass %d of %d: %w", i, x.got.Count, err)
		}
		at = x.want.End
		x.passes++
	}
	a, b := x.fast, x.plain
	if !maps.Equal(listProgress(a), listProgress(b)) || a.pool.free != b.pool.free || a.Load() != b.Load() || at != x.got.End {
		return true, fmt.Errorf("after %d passes, at %v: %v, %d blocks free, and pass by pass %v, %d", x.got.Count, at, listProgress(a), a.pool.free, listProgress(b), b.pool.free)
	}
	return false, nil
}

// comparePass compares pass i of a run with the single pass.
func (x *twins) comparePass(i int) error {
	if a, b := schedulertest.Single(&x.got, i), schedulertest.Single(&x.want, 0); !reflect.DeepEqual(a, b) {
		return fmt.Errorf("\n%+v\nby itself\n%+v", a, b)
	}
	if len(x.got.Nanos) > i != (len(x.want.Nanos) > 0) || len(x.want.Nanos) > 0 && x.got.Nanos[i] != x.want.Nanos[0] {
		return fmt.Errorf("it takes %v ns, by itself %v", x.got.Nanos, x.want.Nanos)
	}
	d := *x.got.Detail
	if i > 0 {
		d.PrefillEnd = x.got.Begins(i)
	}
	if a, b := fmt.Sprintf("%+v", d), fmt.Sprintf("%+v", *x.want.Detail); a != b {
		return fmt.Errorf("\n%s\nby itself\n%s", a, b)
	}
	return nil
}

// listProgress returns the tokens of the running requests.
func listProgress(c *Core) map[sim.RequestID]string {
	all := map[sim.RequestID]string{}
	c.Progress(func(id sim.RequestID, tokens int, last sim.Time) { all[id] = fmt.Sprint(tokens, last) })
	return all
}
