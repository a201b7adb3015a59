package regret

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

// trial is a random replay.
type trial struct {
	spec replay.Spec
	w    *loadgen.Workload
	o    Options
}

// newTrial draws a small cluster with any load, and requests that share prefixes, some of them in sessions.
func newTrial(seed uint64) *trial {
	d := rand.New(rand.NewPCG(seed, 1))
	a := engineargs.Default()
	a.BlockTokens, a.Blocks, a.MaxSeqs = 16, 40+d.IntN(200), 1+d.IntN(6)
	switch d.IntN(3) {
	case 0:
		a.Engine, a.BlockTokens, a.Blocks = engineargs.SGLang, 1, 1000+d.IntN(3000)
	case 1:
		a.Rules, a.Profile = releases.Rules033(), "vllm-0.33"
	}
	names := policy.All()
	t := &trial{
		spec: replay.Spec{Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(a, 1+d.IntN(4)), Seed: seed, Router: names[d.IntN(len(names))].Name}},
		w:    &loadgen.Workload{Name: "random", TraceBlock: 16},
		o:    Options{Sample: 1 + d.IntN(12), Horizon: sim.Time(d.IntN(3) * 200), Cores: 1},
	}
	if info := t.spec.Router.Info(); t.spec.Pools[0].Count < info.MinWorkers {
		t.spec.Topology = t.spec.Resize(info.MinWorkers)
	}
	if t.spec.Router.Info().Caches && d.IntN(2) == 0 {
		c := router.DefaultConfig()
		c.Temperature = float64(d.IntN(2))
		threshold := 0.01
		c.QueueThreshold = &threshold // holds requests back
		t.spec.Router = policy.KV.Configure(&c)
	}
	t.drawPolicy(d)
	t.addTurns(d, 1+d.IntN(3)/2)
	return t
}

// drawPolicy may select a policy from a file (with random samples, held requests and old signals) or the policy of
// llm-d.
func (t *trial) drawPolicy(d *rand.Rand) {
	s := &t.spec
	s.PreemptedApart = d.IntN(2) == 0
	switch d.IntN(4) {
	case 0:
		text := &policy.Text{
			Name: "drawn", Picker: policy.TakeHighest, AnyTie: true,
			Filters: []policy.TextFilter{{Sample: 2}, {Keep: "waiting == 0"}},
			Scorers: []policy.TextScorer{{Weight: 1, Score: "cached_blocks"}, {Weight: 2, Cost: "requests"}},
		}
		if d.IntN(2) == 0 {
			text.Hold = &policy.TextHold{Above: "50", Order: router.LCFS}
		}
		s.Router = text
		if d.IntN(2) == 0 {
			s.Signals.Set(router.Waiting, router.Age{Delay: 20, Interval: 30})
		}
	case 1:
		s.Router = &policy.Picker{Draw: policy.MaxScore, Scorers: []policy.Scorer{{Kind: policy.PrecisePrefix, Weight: 3, Prefix: policy.Prefix{Speculative: 20}}, {Kind: policy.ShortQueue, Weight: 2}}}
	}
}

// addTurns draws sessions of up to most turns.
func (t *trial) addTurns(d *rand.Rand, most int) {
	at := sim.Time(d.IntN(2))
	for s := range int32(6 + d.IntN(10)) {
		n := int32(1 + d.IntN(most))
		t.w.Sessions = append(t.w.Sessions, loadgen.Session{First: int32(len(t.w.Turns)), Turns: n, Arrival: at, HasArrival: true, Automatic: true})
		at += sim.Time(d.IntN(80))
		for i := range n {
			turn := loadgen.Turn{Session: s, Index: i, Next: -1, Line: int32(len(t.w.Turns) + 1), Output: int32(1 + d.IntN(20))}
			if i+1 < n {
				turn.Next = int32(len(t.w.Turns) + 1)
			}
			group, blocks := uint64(d.IntN(3)), 1+d.IntN(8)
			for b := range uint64(blocks) {
				turn.IDs = append(turn.IDs, 100*group+b)
			}
			turn.IDs = append(turn.IDs, uint64(10_000+len(t.w.Turns)))
			turn.Input = int32(16 * len(turn.IDs))
			if i > 0 {
				turn.Delay = sim.Time(d.IntN(50))
			}
			t.w.Turns = append(t.w.Turns, turn)
		}
	}
}

// given is a policy with one choice that the test makes.
type given struct {
	router.Policy
	request sim.RequestID
	worker  sim.WorkerID
}

func (g *given) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	own := g.Policy.Choose(q, c)
	if q.ID == g.request {
		own.Worker = g.worker
	}
	return own
}

// TestEqualsWholeRuns compares each outcome with a complete replay with a policy that makes this one choice.
// TestEqualsWholeRuns compares the states of workers with the rows of all requests.
func TestEqualsWholeRuns(t *testing.T) {
	const all = 300
	tried, held, others, cases := 0, 0, 0, long.Cases(75, all)
	for seed := range uint64(cases) {
		x := newTrial(seed)
		seen := &decisions{}
		base, err := x.spec.RunOn(t.Context(), x.w, replay.Streams{Observer: seen})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		s, err := Find(t.Context(), &x.spec, x.w, x.o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if want := min(x.o.Sample, len(x.w.Turns)); len(s.Decisions) != want || s.Routed != len(x.w.Turns) {
			t.Fatalf("seed %d: %d of %d decisions, want %d of %d", seed, len(s.Decisions), s.Routed, want, len(x.w.Turns))
		}
		for i := range s.Decisions {
			d := &s.Decisions[i]
			if d.At > base.Collector.Records()[d.Request].Arrival {
				held++
			}
			checkWorkers(t, seed, d, base.Collector, seen.all)
			for w := range d.Outcomes {
				tried++
				own := x.spec
				own.Router = &policy.Given{Make: func(o policy.Options) (router.Policy, error) {
					if c, ok := x.spec.Router.(*policy.Configured); ok {
						o.Config = c.Config
					}
					p, err := x.spec.Choice().New(o)
					return &given{p, d.Request, sim.WorkerID(w)}, err
				}}
				whole, err := own.RunOn(t.Context(), x.w, replay.Streams{})
				if err != nil {
					t.Fatalf("seed %d: request %d given to worker %d: %v", seed, d.Request, w, err)
				}
				got, want := d.Outcomes[w], fare(d, x.o.Horizon, base.Collector.Records(), whole.Collector)
				want.Running, want.Waiting = got.Running, got.Waiting
				if got != want {
					t.Fatalf("seed %d, %s: request %d given to worker %d: %+v, and in a whole replay %+v", seed, x.spec.Router, d.Request, w, got, want)
				}
				if got != d.Outcomes[d.Chosen] {
					others++
				}
			}
		}
	}
	if tried*all < 2000*cases || held*all < 20*cases || others*all < 500*cases {
		t.Errorf("%d choices were tried, %d requests had been held back, %d choices gave something else: want more", tried, held, others)
	}
}

// fare returns the times of a request and of all affected requests in a complete replay. fare finds these requests by
// session and turn.
func fare(d *Decision, horizon sim.Time, run []collector.Record, whole *collector.Collector) Outcome {
	var o Outcome
	n := sim.Time(0)
	for i := range run {
		was := &run[i]
		if was.Arrival > d.At+horizon || was.Last <= d.At {
			continue
		}
		n++
		for id, r := range whole.Requests() {
			if r.Session != was.Session || r.Turn != was.Turn {
				continue
			}
			o.AllTTFT += r.TTFT()
			o.AllE2E += r.E2E()
			if sim.RequestID(i) == d.Request {
				again, _ := whole.Readmitted(id)
				o.TTFT, o.E2E, o.Cached = r.TTFT(), r.E2E(), int(r.Reused)-again
			}
		}
	}
	o.AllTTFT, o.AllE2E = o.AllTTFT/n, o.AllE2E/n
	return o
}

// checkWorkers checks the running and waiting requests against the earlier routing decisions.
func checkWorkers(t *testing.T, seed uint64, d *Decision, c *collector.Collector, placed []decision) {
	t.Helper()
	running, waiting := make([]int, len(d.Outcomes)), make([]int, len(d.Outcomes))
	for _, p := range placed {
		if p.request == d.Request {
			break
		}
		switch r := &c.Records()[p.request]; {
		case r.Last <= d.At:
		case r.Admit < d.At:
			running[p.worker]++
		default:
			waiting[p.worker]++
		}
	}
	for w, o := range d.Outcomes {
		if o.Running != running[w] || o.Waiting != waiting[w] {
			t.Errorf("seed %d, request %d: worker %d has %d running and %d waiting, want %d and %d", seed, d.Request, w, o.Running, o.Waiting, running[w], waiting[w])
		}
	}
}

// TestRegrets checks properties of any study. No regret is below 0. A regret is 0 if the choice was the best, so
// always with one worker. The number of cores and observers change nothing.
func TestRegrets(t *testing.T) {
	alone, least := 0, 0
	for seed := range uint64(100) {
		x := newTrial(seed)
		s, err := Find(t.Context(), &x.spec, x.w, x.o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range s.Decisions {
			d := &s.Decisions[i]
			for m := range measures {
				r, best := d.Regret(m), d.Best(m)
				if r < 0 || (r == 0) != (best == d.Chosen) || m.Of(&d.Outcomes[best]) > m.Of(&d.Outcomes[d.Chosen]) {
					t.Fatalf("seed %d, request %d: regret %v of %v, worker %d in place of %d", seed, d.Request, r, m.key(), best, d.Chosen)
				}
				if s.Workers == 1 && r != 0 {
					t.Fatalf("seed %d: regret %v of the only worker", seed, r)
				}
				if r > 0 {
					least++
				}
			}
		}
		if s.Workers == 1 {
			alone++
		}
		last := 0
		x.o.Cores, x.o.Progress = 3, nil
		if seed%2 == 0 {
			x.o.Cores, x.o.Progress = 1, func(done, total int) {
				if last++; done != last || total != len(s.Decisions)*s.Workers {
					t.Errorf("seed %d: %d of %d choices, want %d of %d", seed, done, total, last, len(s.Decisions)*s.Workers)
				}
			}
		}
		again, err := Find(t.Context(), &x.spec, x.w, x.o)
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("seed %d: %v, and another study on %d cores:\n%+v\n%+v", seed, err, x.o.Cores, s, again)
		}
	}
	if alone == 0 || least == 0 {
		t.Errorf("%d studies of one worker and %d regrets above 0, want some of both", alone, least)
	}
}

// TestNothingToLose has requests that share no prefix and arrive one by one at equal workers: all choices are equally
// good.
func TestNothingToLose(t *testing.T) {
	x := &trial{w: &loadgen.Workload{Name: "apart", Synthetic: true}, spec: replay.Spec{
		Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 3), Router: policy.RoundRobin},
	}}
	for i := range int32(20) {
		x.w.Sessions = append(x.w.Sessions, loadgen.Session{First: i, Turns: 1, Arrival: sim.Time(i) * 10_000, HasArrival: true, Automatic: true})
		x.w.Turns = append(x.w.Turns, loadgen.Turn{Session: i, Next: -1, Input: 500, Output: 7})
	}
	s, err := Find(t.Context(), &x.spec, x.w, Options{Sample: 100, Horizon: 30_000, Cores: 2})
	if err != nil || len(s.Decisions) != 20 {
		t.Fatalf("%v: %+v", err, s)
	}
	for m := range measures {
		if sum := s.sumUp(m); sum.best != 20 || sum.is.Max != 0 {
			t.Errorf("%s: %d of 20 were the best, at most %v ms were lost; want all, and 0", m.key(), sum.best, sum.is.Max)
		}
	}
	if text := strings.Join(s.Lines(5), "\n"); strings.Contains(text, "lost") || strings.Contains(text, "worst") {
		t.Errorf("something was lost:\n%s", text)
	}
}

// A study ends shortly after its context is cancelled.
func TestInterrupted(t *testing.T) {
	x := newTrial(3)
	x.spec.Topology = x.spec.Resize(4)
	ctx, stop := context.WithCancelCause(t.Context())
	x.o.Progress = func(done, _ int) {
		if done == 2 {
			stop(errors.New("enough"))
		}
		if done > 4 {
			t.Errorf("%d choices were tried", done)
		}
	}
	x.o.Sample = 100
	started := time.Now()
	if s, err := Find(ctx, &x.spec, x.w, x.o); !errors.Is(err, context.Canceled) || time.Since(started) > 10*time.Second {
		t.Errorf("%+v, %v after %v", s, err, time.Since(started))
	}
}

// TestCheck checks the errors for replays in which other choices cannot be tried.
func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*replay.Spec){
		"closed loop":     func(s *replay.Spec) { s.Mode, s.MaxInFlight = loadgen.Concurrency, 2 },
		"one pool":        func(s *replay.Spec) { s.Pools = replay.TwoPools(s.Pools[0], s.Pools[0]) },
		"program":         func(s *replay.Spec) { s.Router = &policy.Process{} },
		"--faults":        func(s *replay.Spec) { s.Faults = &replay.Faults{} },
		"--retry":         func(s *replay.Spec) { s.Client = &engines.Client{} },
		"--admission":     func(s *replay.Spec) { s.Topology.Admission = &policy.Admission{} },
		"--autoscale":     func(s *replay.Spec) { s.Autoscale = &replay.Autoscale{} },
		"--scale":         func(s *replay.Spec) { s.Scale = []replay.ScaleEvent{{}} },
		"--change":        func(s *replay.Spec) { s.Changes = []replay.Change{{}} },
		"--until":         func(s *replay.Spec) { s.Until = 1 },
		"workers are -1":  func(s *replay.Spec) { s.Topology = s.Resize(-1) },
		"finite instant":  func(s *replay.Spec) { s.Until = -1 },
		"nothing at all!": func(*replay.Spec) {},
	} {
		x := newTrial(1)
		change(&x.spec)
		err := Check(&x.spec)
		if want == "nothing at all!" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v, want one about %s", err, want)
			continue
		}
		if _, again := Find(t.Context(), &x.spec, x.w, x.o); again == nil || again.Error() != err.Error() {
			t.Errorf("Find returns %v, and Check %v", again, err)
		}
	}
}
