package vllm_test

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
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// drawLong draws an engine and requests with long answers, so that runs are long. Every other seed has a queue.
func drawLong(seed uint64) drawn {
	rng := rand.New(rand.NewPCG(seed, 21))
	rules, block := releases.Rules019(), 4<<rng.IntN(4)
	rules.TwoInFlight, rules.MixedStep, rules.OneQueue = rng.IntN(3) > 0, rng.IntN(4) > 0, rng.IntN(2) == 0
	d := drawn{cfg: vllm.Config{
		Settings: vllm.Settings{MaxSeqs: 64, MaxBatchedTokens: 32 + rng.IntN(200), ChunkedPrefill: true, PrefillInterval: rng.IntN(8) / 2, Rules: rules},
		Tree:     prompt.NewTree(2*block, block, prompt.Options{}), BlockTokens: block,
		PrefixCaching: rng.IntN(4) > 0, Role: scheduler.Role(rng.IntN(8) / 7 * 2),
		Blocks: 4000, Clock: timing.Clock{Speedup: 1, DecodeSpeedup: 1, Model: &timing.Parameters{
			Base: 0.002, Token: 1e-5, Context: 1e-6, Mixed: 2e-6, Pair: 1e-8, Request: 1e-5,
		}},
	}}
	switch rng.IntN(8) {
	case 0:
		d.cfg.Clock.Model = timing.Polynomial{}
	case 1:
		d.cfg.Clock.Model = &timing.Table{
			PrefillTokens: []float64{1, 1000}, PrefillMS: []float64{5, 50}, ActiveTokens: []float64{0, 1000}, ContextTokens: []float64{0, 300},
			DecodeMS: []float64{1, 3, 2.5, 7},
		}
	case 2:
		d.cfg.Clock.Speedup = []float64{1.3, 1e4, 1e12}[rng.IntN(3)]
	}
	if seed%2 == 0 {
		d.cfg.MaxSeqs, d.cfg.Blocks = 1+rng.IntN(8), 500/block+rng.IntN(1000/block)
	}
	if rng.IntN(4) == 0 {
		d.cfg.Windows = vllm.Windows{Tokens: 2 + rng.IntN(5*block), Groups: 1 + rng.IntN(3), Full: rng.IntN(2)}
		d.cfg.Blocks *= 4
	}
	if rng.IntN(8) == 0 {
		d.cfg.MaxBatchedTokens = max(2, d.cfg.MaxSeqs/2)
	}
	if seed%5 == 4 {
		d.cfg.Windows = vllm.Windows{Tokens: block + int(seed%uint64(4*block)), Groups: 2, Full: 1}
		d.cfg.Blocks, d.cfg.Rules.WindowLag = 3*d.cfg.Blocks, seed%3 > 0
	}
	at := sim.Time(0)
	for id := range 1 + rng.IntN(20) {
		at += sim.Time(rng.IntN(8)*rng.IntN(400)) / 8
		r := &sim.Request{ID: sim.RequestID(id), Arrived: at, InputTokens: 1 + rng.IntN(6*block), OutputTokens: 1 + rng.IntN(250)}
		ids := []uint64{uint64(rng.IntN(2)), uint64(rng.IntN(2)), uint64(id)}
		r.Prompt = d.cfg.Tree.Add(ids, r.InputTokens)
		d.arrivals = append(d.arrivals, schedulertest.Arrival{At: at, Request: r})
	}
	return d
}

// runs is two cores with the same requests, of which only one runs several passes per Step.
type runs struct {
	rng       *rand.Rand
	fast      scheduler.Core
	plain     scheduler.Core
	now       sim.Time
	got, want scheduler.Pass

	passes, steps, cut, queued int
	joined                     int // runs that joined a pass with changes of cached blocks
}

// Runs of passes, cut anywhere, equal the single passes. Runs also equal the single passes for requests that wait in
// the queue during a run, and for canceled requests.
func TestRuns(t *testing.T) {
	cases := long.Cases(uint64(100), 400)
	var all runs
	for seed := range cases {
		d := drawLong(seed)
		switch {
		case seed%4 == 1:
			d.cfg.Capture = scheduler.CaptureEvents
		case seed%4 == 3 && d.cfg.PrefixCaching && !d.cfg.Windows.Given():
			d.cfg.Capture = scheduler.CaptureResidency
		}
		r := runs{rng: rand.New(rand.NewPCG(seed, 22)), fast: build(t, d.cfg), plain: build(t, d.cfg)}
		r.want.Detail = new(scheduler.Detail)
		if seed%2 == 0 { // no run joins a pass that an observer reads
			r.got.Detail = new(scheduler.Detail)
		}
		if err := r.compare(d.arrivals); err != nil {
			t.Fatalf("seed %d, at %v: %+v\n%v", seed, r.now, d.cfg, err)
		}
		all.passes, all.steps, all.cut, all.queued = all.passes+r.passes, all.steps+r.steps, all.cut+r.cut, all.queued+r.queued
		all.joined += r.joined
	}
	if n := int(cases); 2*all.passes < 3*all.steps || all.cut < 5*n || all.queued < 10*n || all.joined < 5*n {
		t.Errorf("%d passes in %d steps, %d cut, %d with a line, %d after a pass with changes: want more", all.passes, all.steps, all.cut, all.queued, all.joined)
	}
}

// compare replays the requests on both cores.
func (r *runs) compare(arrivals []schedulertest.Arrival) error {
	for {
		next := sim.Time(math.Inf(1))
		for len(arrivals) > 0 && arrivals[0].At <= r.now {
			r.fast.Submit(arrivals[0].Request)
			r.plain.Submit(arrivals[0].Request)
			arrivals = arrivals[1:]
		}
		if len(arrivals) > 0 {
			next = arrivals[0].At
		}
		if r.fast.Load() == 0 {
			if len(arrivals) == 0 {
				return nil
			}
			r.now = next
			continue
		}
		if err := r.takeStep(next); err != nil {
			return err
		}
		if r.now = r.got.End; r.rng.IntN(40) == 0 {
			if err := r.cancel(); err != nil {
				return err
			}
		}
	}
}

// takeStep runs one core for a run of passes, which it cuts, and the other core for the same passes.
func (r *runs) takeStep(next sim.Time) error {
	until := next
	if r.rng.IntN(2) == 0 {
		until = r.now + sim.Time(r.rng.IntN(300))
	}
	if err := r.fast.Step(r.now, until, &r.got); err != nil {
		return err
	}
	keep := r.got.Count
	for keep > 1 && r.got.Begins(keep-1) >= next || keep > 1 && r.rng.IntN(10) == 0 {
		keep--
	}
	if keep < r.got.Count {
		r.fast.Cut(&r.got, keep)
		r.cut++
	}
	r.steps++
	at := r.now
	for i := range r.got.Count {
		if err := r.plain.Step(at, at, &r.want); err != nil {
			return err
		}
		if a, b := schedulertest.Single(&r.got, i), schedulertest.Single(&r.want, 0); !reflect.DeepEqual(a, b) {
			return fmt.Errorf("pass %d of %d:\n got %+v\nwant %+v", i, r.got.Count, a, b)
		}
		if len(r.got.Nanos) > i != (len(r.want.Nanos) > 0) || len(r.want.Nanos) > 0 && r.got.Nanos[i] != r.want.Nanos[0] {
			return fmt.Errorf("pass %d of %d takes %v ns, want %v", i, r.got.Count, r.got.Nanos, r.want.Nanos)
		}
		if err := r.compareDetail(i); err != nil {
			return err
		}
		at = r.want.End
		if r.passes++; r.want.Detail.Waiting > 0 && r.got.Count > 1 {
			r.queued++
		}
	}
	if r.got.Count > 1 && len(r.got.KV)+len(r.got.Events) > 0 {
		r.joined++
	}
	if x, y := progress(r.fast), progress(r.plain); !maps.Equal(x, y) || at != r.got.End {
		return fmt.Errorf("%d passes up to %v: requests are at %v, want %v at %v", r.got.Count, r.got.End, x, y, at)
	}
	return nil
}

// compareDetail compares the detail of pass i of a run, if it has one.
func (r *runs) compareDetail(i int) error {
	if r.got.Detail == nil {
		return nil
	}
	d := *r.got.Detail
	if i > 0 {
		d.PrefillEnd = r.got.Begins(i)
	}
	if x, y := fmt.Sprintf("%+v", d), fmt.Sprintf("%+v", *r.want.Detail); x != y {
		return fmt.Errorf("pass %d of %d:\n got %s\nwant %s", i, r.got.Count, x, y)
	}
	return nil
}

// cancel cancels a random request on both cores.
func (r *runs) cancel() error {
	id := sim.RequestID(r.rng.IntN(20))
	x := r.fast.Cancel(r.now, id, &r.got)
	y := r.plain.Cancel(r.now, id, &r.want)
	if a, b := schedulertest.Single(&r.got, 0), schedulertest.Single(&r.want, 0); x != y || x && !reflect.DeepEqual(a, b) {
		return fmt.Errorf("cancelled %d: %v %+v, want %v %+v", id, x, a, y, b)
	}
	return nil
}
