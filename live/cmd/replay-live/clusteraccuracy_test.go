package main

import (
	"math"
	"slices"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// A replay on processes has the same counts and a similar duration as the replay on the logical clock. The test uses
// the median of several runs, because other processes disturb the runs.
func TestClusterAccuracy(t *testing.T) {
	clusterRequest(t)
	t.Setenv(asProgram, "1")
	const runs = 3
	for _, test := range []struct {
		name, TraceFile string
		lines           int
		args            []string
		online          bool // also compare with a replay in real time
	}{
		{"40 requests, 4 workers, round robin", "short.jsonl", 40, nil, true},
		{"600 requests, 4 workers, round robin", "short.jsonl", 600, nil, false},
		{"200 requests with prefixes, 4 workers, kv", "prefix_tree.jsonl", 200, []string{"--router", "kv"}, false},
	} {
		common := append([]string{"trace", shortTrace(t, test.TraceFile, test.lines)}, test.args...)
		logical := replayHere(t, append(common, "--workers", "4")...)
		var durations, ttfts, beside []float64
		for range runs {
			got := replayHere(t, append(common, "--mode", "cluster", "--spawn", "4")...)
			if got.code != cli.ExitDone {
				t.Errorf("%s: exit %d: %s", test.name, got.code, got.errs)
			}
			for _, key := range counts() {
				if got.report[key] != logical.report[key] {
					t.Errorf("%s: %s is %v, want %v", test.name, key, got.report[key], logical.report[key])
				}
			}
			durations, ttfts = append(durations, got.number("duration_ms")), append(ttfts, got.number("mean_ttft_ms"))
			if test.online {
				live := replayHere(t, append(common, "--mode", "online", "--workers", "4")...)
				beside = append(beside, got.number("mean_ttft_ms")-live.number("mean_ttft_ms"))
			}
		}
		duration, ttft := median(durations), median(ttfts)
		longer := duration/logical.number("duration_ms") - 1
		later, may := ttft-logical.number("mean_ttft_ms"), max(10, 0.1*logical.number("mean_ttft_ms"))
		t.Logf("%-44s duration %+.2f %% (at most 2 %%), mean TTFT %+.2f ms of %.2f (at most %.1f)", test.name, 100*longer, later, logical.number("mean_ttft_ms"), may)
		if math.Abs(longer) > 0.02 || math.Abs(later) > may {
			t.Errorf("%s: too far from the logical clock", test.name)
		}
		if test.online {
			t.Logf("%-44s mean TTFT %+.2f ms against --mode online (at most 6)", test.name, median(beside))
			if median(beside) > 6 {
				t.Errorf("%s: too far from the replay in real time", test.name)
			}
		}
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
