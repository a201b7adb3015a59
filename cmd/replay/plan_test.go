package main

import (
	"bytes"
	"encoding/json"
	"github.com/replay-llm/replay/internal/invariant"
	"os"
	"strconv"
	"testing"
	"time"
)

// On a recorded trace the answer is right: run by themselves, the cluster meets
// the objectives and every smaller one misses, and so it is with the loads.
func TestPlanIsRight(t *testing.T) {
	if invariant.Enabled {
		t.Skip("skipped: hundreds of replays of an hour take minutes with every pass checked")
	}
	if testing.Short() {
		t.Skip("skipped: takes many seconds")
	}
	const trace = "../../../shared/traces/mooncake_conversation.jsonl"
	if _, err := os.Stat(trace); err != nil {
		t.Skipf("no recorded trace: %v", err)
	}
	objectives := []string{"--slo", "p99:ttft=2s,p99:itl=50ms", "--block-size", "512"}
	started := time.Now()
	var found planDocument
	planned := program(t, append([]string{"plan", trace, "--json"}, objectives...))
	if err := json.Unmarshal(planned, &found); err != nil || found.Best == nil {
		t.Fatalf("%v:\n%s", err, planned)
	}
	t.Logf("planned in %v: %d workers", time.Since(started), found.Best.At.Workers)
	best := found.Best
	meets := func(workers int, load float64) bool {
		var report struct {
			Met bool    `json:"slo_met"`
			P99 float64 `json:"p99_ttft_ms"`
		}
		text := program(t, append([]string{"trace", trace, "--output", "json", "--workers", strconv.Itoa(workers),
			"--speedup", strconv.FormatFloat(load, 'g', -1, 64)}, objectives...))
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		if workers == best.At.Workers && load == 1 && report.P99 != best.At.Objectives[0].Value {
			t.Errorf("p99 is %v ms, and the plan says %v", report.P99, best.At.Objectives[0].Value)
		}
		return report.Met
	}
	n := best.At.Workers
	if n < 2 || !meets(n, 1) || !best.EverySmallerRun || best.SmallerRun != n-1 {
		t.Errorf("%d workers miss, or not all smaller ones were run: %d", n, best.SmallerRun)
	}
	for smaller := 1; smaller < n; smaller++ {
		if meets(smaller, 1) {
			t.Errorf("%d workers meet, and the plan says %d", smaller, n)
		}
	}
	if best.Highest == nil || best.Beyond == nil || !meets(n, best.Highest.Load) || meets(n, best.Beyond.Load) ||
		best.Beyond.Load > 1.01*best.Highest.Load {
		t.Errorf("highest load %+v, next %+v", best.Highest, best.Beyond)
	}
	if best.Resamples != 20 || best.WorkersResampled == nil || len(found.Front) < 5 {
		t.Errorf("%d resamples, %d rows in the front", best.Resamples, len(found.Front))
	}
	var quick [2][]byte
	for i, jobs := range []string{"1", "5"} {
		args := []string{"plan", trace, "--json", "--resamples", "1", "--front=false", "--precision", "0.05", "--jobs", jobs}
		quick[i] = program(t, append(args, objectives...))
	}
	if !bytes.Equal(quick[0], quick[1]) {
		t.Error("another number of jobs, another plan")
	}
}

// program is the standard output of a command that ends well.
func program(t *testing.T, args []string) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, nil, &out, &errs); code != 0 {
		t.Fatalf("%v: exit %d: %s", args, code, &errs)
	}
	return out.Bytes()
}
