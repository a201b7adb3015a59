package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// TestWindowsAddUp checks that adjacent windows add up to the whole replay and do not change it.
func TestWindowsAddUp(t *testing.T) {
	tried := 0
	for seed := range 400 {
		d := newDraw(seed)
		x, _ := d.trial(t)
		whole, err := Run(context.Background(), x.cfg)
		if err != nil || whole.Report.DurationMS == 0 {
			continue
		}
		a, b := sim.Time(d.Float64()*whole.Report.DurationMS), sim.Time(d.Float64()*whole.Report.DurationMS)
		a, b = min(a, b), max(a, b)
		if a == 0 || a == b {
			continue
		}
		tried++
		var sum collector.WindowCount
		longest, tokens := 0.0, 0
		for _, w := range []collector.Window{{To: a}, {From: a, To: b}, {From: b}} {
			cfg := x.cfg
			cfg.Window = w
			part, err := Run(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			n := part.Collector.CountWindow()
			sum.Requests, sum.Finished, sum.Input, sum.Output = sum.Requests+n.Requests, sum.Finished+n.Finished, sum.Input+n.Input, sum.Output+n.Output
			longest = max(longest, part.Report.ITL.Max)
			for i, r := range part.Collector.Records() {
				if r != whole.Collector.Records()[i] {
					t.Fatalf("seed %d: window %v: request %d is %+v, in the whole replay %+v", seed, w, i, r, whole.Collector.Records()[i])
				}
			}
		}
		for _, r := range whole.Collector.Records() {
			tokens += int(r.Tokens)
		}
		want := collector.WindowCount{Requests: whole.Report.Requests, Finished: whole.Report.Completed, Input: whole.Report.InputTokens, Output: tokens}
		if sum != want || math.Abs(longest-whole.Report.ITL.Max) > 1e-9 {
			t.Errorf("seed %d: windows up to %v, %v and the end: %+v, longest ITL %v; the whole: %+v, %v", seed, a, b, sum, longest, want, whole.Report.ITL.Max)
		}
	}
	if tried < 100 {
		t.Errorf("%d replays tried, want 100", tried)
	}
}

// TestRecycledLoops checks a recycled workload. The recycled workload equals the plain workload until its second
// round begins. Until its end the maximum number of requests is in flight, and every arrived request is answered.
func TestRecycledLoops(t *testing.T) {
	tried := 0
	for seed := range 600 {
		d := newDraw(seed)
		x, _ := d.trial(t)
		if x.cfg.Admission.Mode != loadgen.Concurrency {
			continue
		}
		plain, err := Run(context.Background(), x.cfg)
		if err != nil || plain.Report.DurationMS == 0 {
			continue
		}
		cfg := x.cfg
		cfg.Workload = loadgen.Recycle(x.cfg.Workload, 40)
		cfg.Admission.Stop = sim.Time(plain.Report.DurationMS * (1 + 2*d.Float64()))
		recycled, err := Run(context.Background(), cfg)
		if errors.As(err, new(*harness.StalledError)) {
			continue // requests preempt each other forever
		} else if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if recycled.RanOut {
			continue
		}
		tried++
		if err := compareFirstRounds(plain, recycled, x.cfg.Workload); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := checkInFlight(recycled, &cfg, len(cfg.Pools) == 1); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if tried < 60 {
		t.Errorf("%d replays tried, want 60", tried)
	}
}

// compareFirstRounds compares the two results before the start of the second round.
func compareFirstRounds(plain, recycled *harness.Result, w *loadgen.Workload) error {
	all := recycled.Collector.Records()
	first := sort.Search(len(all), func(i int) bool { return all[i].Arrival >= beginOfRound(all, w) })
	until := beginOfRound(all, w)
	for i := range first {
		a, b := plain.Collector.Records()[i], all[i]
		for _, r := range []*collector.Record{&a, &b} {
			for _, at := range []*sim.Time{&r.Admit, &r.First, &r.Second, &r.Last} {
				if *at >= until {
					*at = 0 // later values may differ
				}
			}
			if r.Last == 0 {
				r.Tokens, r.Reused = 0, 0
			}
			if r.Admit <= 0 {
				r.Admit, r.Reused, r.Worker, r.PrefillWorker = 0, 0, 0, 0
			}
		}
		if a != b {
			return fmt.Errorf("request %d: %+v, recycled %+v", i, a, b)
		}
	}
	return nil
}

// beginOfRound returns the start of the second round.
func beginOfRound(all []collector.Record, w *loadgen.Workload) sim.Time {
	for i := range all {
		if int(all[i].Session) >= len(w.Sessions) {
			return all[i].Arrival
		}
	}
	return sim.Time(math.Inf(1))
}

// checkInFlight counts the requests in flight at all instants up to the end, and their outcomes.
func checkInFlight(result *harness.Result, cfg *Config, exact bool) error {
	change := map[sim.Time]int{}
	for id, r := range result.Collector.Requests() {
		if r.Arrival >= cfg.Admission.Stop {
			return fmt.Errorf("request %d arrives at %v ms, after the end at %v", id, r.Arrival, cfg.Admission.Stop)
		}
		lengths := engines.NewLengths(&cfg.Topology)
		if _, refused := lengths.Fit(int(r.InputTokens), int(r.OutputTokens)); refused != nil && result.Collector.OutcomeOf(id) == collector.Rejected {
			continue
		}
		if result.Collector.OutcomeOf(id) != collector.Completed {
			return fmt.Errorf("request %d is %v", id, result.Collector.OutcomeOf(id))
		}
		change[r.Arrival]++
		change[r.Last]--
	}
	var instants []sim.Time
	for at := range change {
		instants = append(instants, at)
	}
	sort.Slice(instants, func(i, j int) bool { return instants[i] < instants[j] })
	n := 0
	for _, at := range instants {
		n += change[at]
		if at < cfg.Admission.Stop && (n < cfg.Admission.MaxInFlight || exact && n > cfg.Admission.MaxInFlight) {
			return fmt.Errorf("%d requests in flight after %v ms, want %d", n, at, cfg.Admission.MaxInFlight)
		}
	}
	return nil
}
