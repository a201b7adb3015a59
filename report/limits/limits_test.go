package limits_test

import (
	"context"
	"math"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/limits"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

// watch replays requests that arrive at intervals on one engine, and finds the limits of an objective.
func watch(t *testing.T, objective string, interval float64, change func(*engineargs.Args)) (limits.Limit, string) {
	t.Helper()
	a := engineargs.Default()
	a.BlockTokens, a.Blocks = 16, 4096
	change(&a)
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 100, Input: 600, Output: 60, Interval: sim.Time(interval)},
		Mode:      loadgen.Trace, Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(a, 1), Seed: 1},
	}
	engine, err := ledger.NewEngine(&a)
	if err != nil {
		t.Fatal(err)
	}
	w := limits.NewWatch(ledger.NewBook(nil, engine), collector.Window{}, &a)
	result, err := spec.Run(context.Background(), replay.Streams{Observer: w})
	if err != nil {
		t.Fatal(err)
	}
	all, err := slo.Parse(objective)
	if err != nil {
		t.Fatal(err)
	}
	value, _ := slo.FindStatistic(result, all[0].Statistic, all[0].Metric)
	l, ok := w.Find(&all[0], value, requests.Collect(result.Collector, nil, nil, w.Book))
	if !ok {
		t.Fatalf("nothing bounds %s", objective)
	}
	sum := 0.0
	for _, c := range l.Causes {
		sum += c.Share
	}
	if math.Abs(sum-1) > 1e-9 || l.Part <= 0 || l.Part > 1 {
		t.Errorf("shares sum to %v, of %v", sum, l.Part)
	}
	return l, l.Causes[0].Key
}

// The limit of a latency is the exhausted resource of the engine.
func TestLargestCause(t *testing.T) {
	for _, c := range []struct {
		name, objective string
		interval        float64
		change          func(*engineargs.Args)
		want            string
	}{
		{"seats", "p99:ttft=10ms", 5, func(a *engineargs.Args) { a.MaxSeqs = 4 }, "queue_seats"},
		{"KV blocks", "p99:ttft=10ms", 5, func(a *engineargs.Args) { a.Blocks = 180 }, "queue_kv_blocks"},
		{"token budget", "p99:ttft=10ms", 5, func(a *engineargs.Args) { a.MaxBatchedTokens = 512 }, "queue_token_budget"},
		{"own prompt", "p99:ttft=10s", 2000, func(*engineargs.Args) {}, "prefill"},
		{"decode steps", "mean:tpot=1ms", 2000, func(*engineargs.Args) {}, "decode_alone"},
		{"prefills of others", "max:itl=1s", 40, func(*engineargs.Args) {}, "prefill"},
		{"decode steps alone", "max:itl=1s", 2000, func(*engineargs.Args) {}, "decode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if l, got := watch(t, c.objective, c.interval, c.change); got != c.want {
				t.Errorf("%s, want %s: %v", got, c.want, l)
			}
		})
	}
}

// If passes are planned ahead, a request keeps its seat in the pass after its last token. A request that waits for
// this seat waits for a seat, not for KV blocks.
func TestSeatsOfPassesPlannedAhead(t *testing.T) {
	l, _ := watch(t, "p99:ttft=10ms", 5, func(a *engineargs.Args) { a.MaxSeqs, a.Rules = 24, releases.Rules033() })
	for _, c := range l.Causes {
		if c.Key == "queue_kv_blocks" {
			t.Errorf("%.0f%% is %s, with blocks for all requests: %v", 100*c.Share, c.Key, l)
		}
	}
}

// Gaps that exceed a limit are counted, together with the prompt tokens in them.
func TestGapsAboveTheLimit(t *testing.T) {
	l, _ := watch(t, "p90:itl=8ms", 40, func(*engineargs.Args) {})
	if !l.OfGaps || !l.Over || l.Part < 0.1 || l.PromptTokens != 600 {
		t.Errorf("%+v: %v", l, l)
	}
}
