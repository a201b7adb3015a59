package offline

import (
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// TestPoliciesInEveryDriver checks that every policy gives the same replay in every driver that supports it. The
// drivers are the literal model, the cluster and, in open loop, the drivers of lazy.go and alone.go.
func TestPoliciesInEveryDriver(t *testing.T) {
	all := policy.All()
	met := map[string]int{}
	each(t, 600, func(t *testing.T, d draw, x *trial, text string) bool {
		info := all[d.IntN(len(all))]
		x.cfg.Router = info.Name
		x.cfg.Signals = d.signals(&x.cfg.Topology)
		want := x.run(byLiteral)
		if d := difference(want, x.run(byCluster)); d != "" {
			t.Fatalf("%s: the literal model and the cluster: %s\n%s", info.Name, d, x.show(text))
		}
		if d := x.broken(want); d != "" {
			t.Fatalf("%s: %s\n%s", info.Name, d, x.show(text))
		}
		if x.cfg.Disaggregated() || x.cfg.Admission.Mode == loadgen.Concurrency || x.cfg.Workload.MultiTurn() || len(x.cfg.Scale) > 0 {
			return true
		}
		want.calls = nil
		held := 0
		drivers := map[string]maker{"lazily": byLazily(&held)}
		p, err := policy.New(info.Name, policy.Options{Config: router.DefaultConfig(), BlockTokens: 1})
		if err != nil {
			t.Fatal(err)
		}
		if p.Needs() == (router.Needs{}) {
			drivers["alone"] = byAlone
		}
		for name, make := range drivers {
			got := x.run(make)
			if want.err != nil && got.err != nil {
				continue // if several workers stall, the errors may name different ones
			}
			got.calls, want.inFlight, got.inFlight = nil, 0, 0
			if d := difference(want, got); d != "" {
				t.Fatalf("%s: the literal model, and workers %s: %s\n%s", info.Name, name, d, x.show(text))
			}
			met[string(info.Name)+" "+name]++
		}
		return true
	})
	if !long.Enabled() { // a short test covers few combinations
		return
	}
	for _, what := range []string{"round_robin alone", "random alone", "kv lazily", "least-loaded lazily", "p2c lazily", "session lazily"} {
		if met[what] == 0 {
			t.Errorf("%s: never met", what)
		}
	}
}
