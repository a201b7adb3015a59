package offline

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// text draws a policy from a file.
func (d draw) text() *policy.Text {
	numbers := []string{
		"requests", "tokens_to_compute / block_tokens", "active_blocks - active_overlap", "cached_blocks", "sent_blocks", "request.blocks * index", "requests / max(sum(requests), 1)",
		"waiting", "kv_usage", "signal_age * index", "index_age * index", "lot(request.session, index)", "lot(request.prefix_group, index)", "oracle.output_tokens * requests", "now * index", "requests / (requests - 1)", "speed", "queued + index",
	}
	truths := []string{"requests < 2", "requests == min(requests)", "any(cached_blocks > 0) ? cached_blocks > 0 : true", "index % 2 == 0", "request.input_tokens > 60", "tokens_to_compute < 100", "waiting == 0", "kv_usage < 0.5"}
	t := &policy.Text{Name: "drawn", Picker: pick(d, policy.TextPickers()...)}
	for range d.IntN(3) {
		t.Filters = append(t.Filters, pick(d, policy.TextFilter{Keep: pick(d, truths...)}, policy.TextFilter{Keep: pick(d, truths...)}, policy.TextFilter{Sample: 1 + d.IntN(3)}))
	}
	if t.Picker == policy.TakeHighest || t.Picker == policy.DrawByScore {
		for range 1 + d.IntN(3) {
			t.Scorers = append(t.Scorers, pick(d, policy.TextScorer{Weight: d.Float64(), Score: pick(d, numbers...)}, policy.TextScorer{Weight: 1, Cost: pick(d, numbers...)}))
		}
	}
	if t.Picker == policy.TakeHighest {
		t.AnyTie, t.Temperature = d.oneIn(3), pick(d, 0, 0, 0.5)
	}
	if d.oneIn(4) {
		t.Hold = &policy.TextHold{Above: pick(d, "0", "pass_tokens / 2", "50"), Order: pick(d, router.FCFS, router.LCFS, router.WSPT)}
	}
	t.Sent = pick(d, policy.TextMemory{}, policy.TextMemory{Blocks: 5}, policy.TextMemory{For: 10})
	return t
}

// signals draws the delays of the signals that routers read.
func (d draw) signals(t *engines.Topology) router.Signals {
	all := router.Signals{}
	if d.oneIn(2) {
		return all
	}
	for _, s := range t.ListSignals() {
		if d.oneIn(2) {
			all.Set(s, router.Age{Delay: pick[sim.Time](d, 0, 1, 7.5, 40, 1e6), Interval: pick[sim.Time](d, 0, 5, 33)})
		}
	}
	return all
}

// TestTextPoliciesInEveryDriver checks that a replay with any policy from a file ends, and that all drivers that
// support it give the same result.
func TestTextPoliciesInEveryDriver(t *testing.T) {
	met := map[string]int{}
	each(t, 1000, func(t *testing.T, d draw, x *trial, text string) bool {
		drawn := d.text()
		x.cfg.Router = drawn
		x.cfg.Signals = d.signals(&x.cfg.Topology)
		readsMetrics := slices.ContainsFunc(drawn.LooksAt(), policy.IsMetric)
		want := x.run(byCluster)
		if d := x.broken(want); d != "" {
			t.Fatalf("%v: %s\n%s", drawn, d, x.show(text))
		}
		if d := difference(want, x.run(byLiteral)); d != "" {
			t.Fatalf("%v: the cluster and the literal model: %s\n%s", drawn, d, x.show(text))
		}
		if readsMetrics || x.cfg.Disaggregated() || x.cfg.Admission.Mode == loadgen.Concurrency || x.cfg.Workload.MultiTurn() || len(x.cfg.Scale) > 0 {
			return true
		}
		held := 0
		drivers := map[string]maker{"lazily": byLazily(&held)}
		p, err := policy.NewText(*drawn, policy.Options{BlockTokens: 1})
		if err != nil {
			t.Fatal(err)
		}
		if p.Needs() == (router.Needs{}) {
			drivers["alone"] = byAlone
		}
		want.calls = nil
		for name, make := range drivers {
			got := x.run(make)
			if want.err != nil && got.err != nil {
				continue // if several workers stall, the errors may name different ones
			}
			got.calls, want.inFlight, got.inFlight = nil, 0, 0
			if d := difference(want, got); d != "" {
				t.Fatalf("%v: the cluster, and workers %s: %s\n%s", drawn, name, d, x.show(text))
			}
			met[name]++
		}
		return true
	})
	if want := trials(t, 1000) / 50; met["lazily"] < want || met["alone"] < want {
		t.Errorf("driven %v, want at least %d of each", met, want)
	}
}
