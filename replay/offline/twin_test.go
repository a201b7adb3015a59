package offline

import (
	"strconv"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

// trials returns the number of random trials of a test: n, or a share of n in short tests.
func trials(t *testing.T, n int) int { return n / share(t) }

// share returns n if a test makes only one trial in n.
func share(t *testing.T) int {
	if testing.Short() {
		return 20
	}
	return long.Cases(12, 1)
}

// TestClusterEqualsLiteral compares the cluster with the literal model. The cluster cuts runs of passes and orders
// simultaneous events without numbering every pass; the literal model has neither runs nor unnumbered events.
// Reports, requests and router calls are equal, with and without runs. A failure prints its seed, which can be run
// alone:
//
//	REPLAY_LONG=1 go test ./replay/offline -run 'TestClusterEqualsLiteral/^1234$'
func TestClusterEqualsLiteral(t *testing.T) {
	met, ran := map[string]int{}, 0
	n := trials(t, 6000)
	for seed := range n {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			ran++
			x, text := newDraw(seed).trial(t)
			want := x.run(byLiteral)
			got := x.run(byCluster)
			if d := difference(want, got); d != "" {
				t.Fatalf("the literal model and the cluster: %s\n%s", d, x.show(text))
			}
			if seed%4 == 0 {
				if d := difference(want, x.run(byPasses)); d != "" {
					t.Fatalf("the literal model and the cluster without runs: %s\n%s", d, x.show(text))
				}
			}
			if d := x.broken(got); d != "" {
				t.Fatalf("%s\n%s", d, x.show(text))
			}
			x.count(met, got)
		})
		if t.Failed() {
			return
		}
	}
	if ran < n {
		return // one seed only
	}
	for _, what := range []string{"kv", "disaggregated", "transfer", "closed loop", "sessions", "no time", "sglang", "host memory", "own rules", "front end", "finished", "stalled"} {
		if met[what] < n/200 {
			t.Errorf("%q was met in %d of %d trials, want at least one in 200: %v", what, met[what], n, met)
		}
	}
}

// count counts the features of a trial.
func (x *trial) count(met map[string]int, out outcome) {
	c := &x.cfg
	for what, is := range map[string]bool{
		"kv":            c.Choice().Info().Name == policy.KV,
		"disaggregated": c.Disaggregated(),
		"transfer":      c.Disaggregated() && c.Entry().Engine.Transfer() != scheduler.Transfer{},
		"closed loop":   c.Admission.Mode == loadgen.Concurrency,
		"sessions":      c.Workload.MultiTurn(),
		"no time":       len(out.records) > 0 && out.records[0].First == out.records[0].Arrival,
		"sglang":        c.Entry().Engine.Engine == engineargs.SGLang,
		"host memory":   !c.Compat && c.Entry().Engine.G2.Blocks > 0,
		"own rules":     !c.Entry().Engine.Rules.Reference() && c.Entry().Engine.Engine == engineargs.VLLM,
		"front end":     !c.FrontEndTime().IsZero(),
		"finished":      out.err == nil,
		"stalled":       out.err != nil,
	} {
		if is {
			met[what]++
		}
	}
}
