package replay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

func newFirstCome(o custom.Options) (custom.Engine, error) { return &custom.FirstCome{Options: o}, nil }

// counted is an engine that counts waiting requests that were preempted.
type counted struct {
	custom.FirstCome
	lost *int // sum over all workers
}

func (e *counted) Plan(p *custom.Plan) {
	for _, r := range p.Waiting {
		*e.lost += min(r.Preempted, 1)
	}
	e.FirstCome.Plan(p)
}

// firstComeRules returns the rules of vLLM that FirstCome follows.
func firstComeRules() vllm.Rules {
	r := releases.Rules024()
	r.TwoInFlight, r.NullBlock, r.EmptyPassMs, r.EmptyPassIdle = false, false, 0, false
	return r
}

// drawEngineSpec draws a small replay, mostly with too few KV blocks.
func drawEngineSpec(seed uint64) replay.Spec {
	rng := rand.New(rand.NewPCG(seed, 33))
	a := engineargs.Default()
	a.BlockTokens = 4 << rng.IntN(4)
	a.Rules, a.MaxBatchedTokens, a.MaxSeqs = firstComeRules(), 64+rng.IntN(1500), rng.IntN(20)
	a.PrefixCaching, a.ChunkedPrefill = rng.IntN(4) > 0, rng.IntN(4) > 0
	if !a.ChunkedPrefill {
		a.MaxBatchedTokens = 1200
	}
	in, out := 100+rng.IntN(500), 10+rng.IntN(120)
	a.Blocks = (2*in+2*out)/a.BlockTokens*(1+rng.IntN(3)) + 4
	routers := policy.All()
	s := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 60 + rng.IntN(100), Input: in, Output: out, Interval: sim.Time(rng.IntN(40)), Turns: 1, SharedRatio: float64(rng.IntN(4)) / 4, Groups: 1 + rng.IntN(4)},
		Speedup:   1,
		Topology:  replay.Topology{Pools: replay.OnePool(a, 1+rng.IntN(7)), Router: routers[seed%uint64(len(routers))].Name, Seed: seed, PreemptedApart: rng.IntN(2) == 0},
	}
	if rng.IntN(3) == 0 {
		s.Pools[0].Engine.PassTimes = timing.ParseSource("roofline:h100/llama-3.1-8b")
	}
	switch rng.IntN(3) {
	case 0:
		s.Synthetic.Turns, s.Synthetic.Delay = 1+rng.IntN(4), sim.Time(rng.IntN(300))
	case 1:
		s.Mode, s.MaxInFlight = loadgen.Concurrency, 1+rng.IntN(60)
	}
	if least := s.Router.Info().MinWorkers; s.Pools[0].Count < least {
		s.Pools[0].Count = least
	}
	drawTrouble(rng, &s)
	return s
}

// drawTrouble adds events to some replays: scaling, faults, workers of two kinds or speeds, or client timeouts.
func drawTrouble(rng *rand.Rand, s *replay.Spec) {
	switch rng.IntN(6) {
	case 3:
		kinds := []replay.Kind{{Name: "a", Engine: s.Pools[0].Engine, Count: 1 + rng.IntN(3)}, {Name: "b", Engine: s.Pools[0].Engine, Count: 2}}
		kinds[0].Engine.Blocks *= 2
		kinds[1].Engine.MaxSeqs, kinds[1].Engine.Speedup = 3, 2
		s.Pools = []replay.Pool{replay.Mix(kinds)}
	case 4:
		s.WorkerSpeeds = [][]float64{slices.Repeat([]float64{0.5}, s.Pools[0].Count)}
	case 0:
		s.Pools[0].Engine.StartupSeconds = 0.1
		s.Scale = []replay.ScaleEvent{{At: 300, Workers: 1 + rng.IntN(5), Decode: replay.KeepSize}, {At: 900, Workers: 2 + rng.IntN(4), Decode: replay.KeepSize}}
	case 1:
		s.Faults = &replay.Faults{OnLoss: []engines.OnLoss{engines.RetryThem, engines.MigrateThem, engines.LoseThem}[rng.IntN(3)], Limit: 3}
		for i, kind := range []engines.FaultKind{engines.Dies, engines.Hangs, engines.Slows} {
			s.Faults.Events = append(s.Faults.Events, engines.Fault{
				At: sim.Time(200 * (i + 1)), Kind: kind, Pool: engines.Anywhere, Zone: engines.Anywhere, Workers: []sim.WorkerID{0}, For: 300, Back: 400, Factor: 2,
			})
		}
	case 2:
		s.Client = &engines.Client{Retries: 2, Backoff: 50, Factor: 2, Timeout: sim.Time(100 + rng.IntN(900))}
	}
}

// outcome is the result of a replay for comparison.
type outcome struct {
	report  *collector.Report
	records []collector.Record
}

func runEngine(t *testing.T, spec *replay.Spec, streams replay.Streams) outcome {
	t.Helper()
	result, err := spec.Run(context.Background(), streams)
	if err != nil {
		t.Fatal(err)
	}
	result.Report.SetWall(time.Second)
	o := outcome{report: result.Report}
	for _, r := range result.Collector.Requests() {
		o.records = append(o.records, *r)
	}
	return o
}

// TestOwnEngineEqualsBuiltIn compares a custom engine that plans like vLLM with vLLM's engine. The report and the
// records of requests are identical under any router.
func TestOwnEngineEqualsBuiltIn(t *testing.T) {
	preempted, reused := 0, 0
	for seed := range uint64(150) {
		spec := drawEngineSpec(seed)
		var streams replay.Streams
		if seed%7 == 0 {
			spec.Router = &policy.Given{Make: func(policy.Options) (router.Policy, error) { return mostCached(), nil }}
		}
		want := runEngine(t, &spec, streams)
		lost := 0
		streams.Engine = func(o custom.Options) (custom.Engine, error) {
			return &counted{custom.FirstCome{Options: o}, &lost}, nil
		}
		got := runEngine(t, &spec, streams)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: router %s: %s", seed, spec.Router, firstDifference(got, want))
		}
		if want.report.PrefixCacheReusedRatio > 0 {
			reused++
		}
		if lost > 0 {
			preempted++
		}
	}
	if preempted < 20 || reused < 20 {
		t.Errorf("%d replays with preemptions and %d with prefix cache hits, want more", preempted, reused)
	}
}

// firstDifference describes the first request that differs.
func firstDifference(got, want outcome) string {
	for i := range min(len(got.records), len(want.records)) {
		if !reflect.DeepEqual(got.records[i], want.records[i]) {
			return fmt.Sprintf("request %d is\n%+v, want\n%+v", i, got.records[i], want.records[i])
		}
	}
	return fmt.Sprintf("%+v, want\n%+v", got.report, want.report)
}

// passes records the passes that an observer sees, by worker and end.
type passes struct {
	harness.NoObserver
	seen map[passKey]string
}

type passKey struct {
	worker sim.WorkerID
	end    sim.Time
	single bool
}

func (o *passes) Pass(_ scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	d := p.Detail
	full := fmt.Sprint(d.Running, d.Waiting, d.Blocks, d.Held, d.Cached)
	o.seen[passKey{w, p.End, false}] = full
	if p.Count == 1 {
		o.seen[passKey{w, p.End, true}] = full + fmt.Sprint(d.PrefillEnd, d.Work, d.Lost, d.Resumed, p.Start, p.Admitted, p.Marks, p.Second, p.Preempted, p.PrefillTokens, p.Tokens, p.Decoding, p.Gaps)
	}
}

// TestOwnEngineIsObservedAlike checks that observers see the same passes. If vLLM's core takes several passes at
// once, the test compares the state after the last pass.
func TestOwnEngineIsObservedAlike(t *testing.T) {
	compared := 0
	for seed := range uint64(60) {
		spec := drawEngineSpec(seed)
		spec.Client, spec.Faults = nil, nil // a request may leave at the end of a run of passes
		want, got := passes{seen: make(map[passKey]string)}, passes{seen: make(map[passKey]string)}
		runEngine(t, &spec, replay.Streams{Observer: &want})
		runEngine(t, &spec, replay.Streams{Observer: &got, Engine: newFirstCome})
		for at, w := range want.seen {
			if got.seen[at] != w {
				t.Fatalf("seed %d: %+v:\n%s, want\n%s", seed, at, got.seen[at], w)
			}
			compared++
		}
	}
	if compared < 5000 {
		t.Errorf("%d passes compared, want more", compared)
	}
}

// scribbler is an engine that overwrites all values of a plan between its calls. scribbler also adds to the plan of
// the previously planned worker.
type scribbler struct {
	custom.FirstCome
	old    map[*custom.Request]custom.Request
	before *planned
}

// planned is the latest plan of any worker, and the requests that waited.
type planned struct {
	plan *custom.Plan
	ids  []sim.RequestID
}

func (e *scribbler) Plan(p *custom.Plan) {
	for r, was := range e.old {
		r.ID, r.Input, r.Output, r.Arrived = was.ID, was.Input, was.Output, was.Arrived
	}
	clear(e.old)
	if other := e.before; other.plan != p {
		for _, id := range slices.Backward(other.ids) {
			other.plan.Compute(id, 1)
		}
		e.before.ids = e.before.ids[:0]
	}
	e.before.plan = p
	for _, r := range p.Waiting {
		e.before.ids = append(e.before.ids, r.ID)
	}
	e.FirstCome.Plan(p)
	for _, r := range append(p.Running, p.Waiting...) {
		e.old[r] = *r
		r.ID, r.Input, r.Output, r.Arrived = -1, -1, -1, -1
	}
	clear(p.Running)
	clear(p.Waiting)
}

// TestOwnEngineCannotTouchTheBooks checks that a replay does not read values that an engine may overwrite.
// TestOwnEngineCannotTouchTheBooks also checks that an ended plan has no effect.
func TestOwnEngineCannotTouchTheBooks(t *testing.T) {
	for seed := range uint64(20) {
		spec := drawEngineSpec(seed)
		want := runEngine(t, &spec, replay.Streams{Engine: newFirstCome})
		before := new(planned)
		got := runEngine(t, &spec, replay.Streams{Engine: func(o custom.Options) (custom.Engine, error) {
			return &scribbler{custom.FirstCome{Options: o}, make(map[*custom.Request]custom.Request), before}, nil
		}})
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %s", seed, firstDifference(got, want))
		}
	}
}
