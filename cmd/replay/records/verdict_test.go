package records

import (
	"strconv"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/requests"
)

// Comparisons of two equal runs of a policy that draws workers at random, with several seeds each, have a verdict in
// at most 8 % of the cases. A cluster with one more worker is distinguished.
func TestVerdictsOfOnePolicy(t *testing.T) {
	pairs, seeds := long.Cases(4, 12), 8
	wrong, judged, right, wanted := 0, 0, 0, 0
	for _, router := range []string{"random", "p2c"} {
		for _, trace := range [][]plan.Setting{
			{{Name: "input-tokens", Value: "800"}, {Name: "output-tokens", Value: "40"}, {Name: "request-count", Value: "400"}, {Name: "arrival-interval-ms", Value: "16"}},
			{{Name: "input-tokens", Value: "500"}, {Name: "output-tokens", Value: "30"}, {Name: "request-count", Value: "150"}, {Name: "arrival-interval-ms", Value: "60"}, {Name: "turns-per-session", Value: "3"}},
			{{Name: "input-tokens", Value: "1500"}, {Name: "output-tokens", Value: "20"}, {Name: "request-count", Value: "400"}, {Name: "arrival-interval-ms", Value: "20"}, {Name: "shared-prefix-ratio", Value: "0.5"}, {Name: "num-prefix-groups", Value: "20"}},
		} {
			rows := func(seed int, workers string) []requests.Row {
				return replayRows(t, append([]plan.Setting{
					{Name: "gpu", Value: "h100"}, {Name: "model", Value: "llama-3.1-8b"}, {Name: "workers", Value: workers}, {Name: "router", Value: router}, {Name: "seed", Value: strconv.Itoa(seed)},
				}, trace...))
			}
			var all, more [][]requests.Row
			for k := range 2 * pairs * seeds {
				all = append(all, rows(k+1, "4"))
			}
			for k := range seeds {
				more = append(more, rows(k+1, "5"))
			}
			for k := range pairs {
				a, b := all[2*k*seeds:(2*k+1)*seeds], all[(2*k+1)*seeds:(2*k+2)*seeds]
				for _, m := range repeatPairs(a, b).Metrics {
					if judged++; m.Verdict == diff.Win || m.Verdict == diff.Lose {
						wrong++
					}
				}
			}
			for _, m := range repeatPairs(all[:seeds], more).Metrics {
				if wanted++; m.Verdict == diff.Win {
					right++
				}
			}
		}
	}
	t.Logf("%d of %d comparisons of equals have a verdict; %d of %d true differences are found", wrong, judged, right, wanted)
	if float64(wrong) > 0.08*float64(judged) {
		t.Errorf("%d of %d comparisons of equals have a verdict, want at most 8 %%", wrong, judged)
	}
	if 4*right < 3*wanted {
		t.Errorf("%d of %d true differences are found, want three quarters", right, wanted)
	}
}

func repeatPairs(a, b [][]requests.Row) *diff.Paired {
	seeds := make([][2][]requests.Row, len(a))
	for k := range seeds {
		seeds[k] = [2][]requests.Row{a[k], b[k]}
	}
	p := diff.PairRows(a[0], b[0])
	p.Repeat(seeds)
	return p
}

// replayRows runs a replay and returns the requests.
func replayRows(t *testing.T, settings []plan.Setting) []requests.Row {
	t.Helper()
	o, file, mode, err := options.OptionsOf(settings)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := o.Spec(file, mode)
	if err != nil {
		t.Fatal(err)
	}
	var replayed *loadgen.Workload
	result, err := spec.Run(t.Context(), replay.Streams{Opened: func(w *loadgen.Workload) { replayed = w }})
	if err != nil {
		t.Fatal(err)
	}
	return requests.Collect(result.Collector, runs.PlacesIn(replayed), nil, nil)
}
