package requests_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

// recorded runs spec and returns its rows.
func recorded(t *testing.T, spec replay.Spec) (*harness.Result, []requests.Row) {
	t.Helper()
	seen := new(requests.Recorder)
	result, err := spec.Run(context.Background(), replay.Streams{Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	return result, requests.Collect(result.Collector, nil, seen, nil)
}

// specs returns runs of all topologies with small caches, so that engines preempt.
func specs() map[string]replay.Spec {
	all := map[string]replay.Spec{}
	for _, engine := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang} {
		for _, blocks := range []int{60, 400} {
			text := fmt.Sprintf(`{"engine_type":"%v","num_gpu_blocks":%d,"block_size":16,"max_num_batched_tokens":512}`, engine, blocks)
			args, err := engineargs.Parse([]byte(text), engineargs.Options{})
			if err != nil {
				panic(err)
			}
			base := replay.Spec{
				Synthetic: loadgen.Synthetic{Requests: 60, Input: 200, Output: 60, Interval: 20, Turns: 2, Delay: 5},
				Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(args, 1)},
			}
			all[fmt.Sprintf("%v, %d blocks, 1 worker", engine, blocks)] = base
			kv := base
			kv.Topology, kv.Router = kv.Resize(3), policy.KV
			all[fmt.Sprintf("%v, %d blocks, 3 workers, kv", engine, blocks)] = kv
			two := base
			prefill, decode := args, args
			prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
			prefill.KVBytesPerToken, prefill.TransferGBPerSecond = 100_000, 10
			two.Pools = replay.TwoPools(replay.Pool{Engine: prefill, Count: 1}, replay.Pool{Engine: decode, Count: 1})
			all[fmt.Sprintf("%v, %d blocks, prefill and decode", engine, blocks)] = two
		}
	}
	return all
}

// The values of a row are consistent, and together the rows give the values of the report.
func TestRowsAndReport(t *testing.T) {
	preempted, transferred := 0, 0
	for name, spec := range specs() {
		result, rows := recorded(t, spec)
		longest, unknown := requests.MS(0), 0
		for i := range rows {
			r := &rows[i]
			if r.Preemptions.Known() {
				preempted += int(r.Preemptions)
			}
			if r.Transfer.Known() {
				transferred++
			}
			if !r.ITLMax.Known() {
				unknown++
				continue
			}
			longest = max(longest, r.ITLMax)
			if float64(r.ITLMax) < float64(r.ITLMean)-1e-9 {
				t.Errorf("%s: request %d: longest gap %v, mean %v", name, i, r.ITLMax, r.ITLMean)
			}
			check(t, name, r, spec.Disaggregated())
		}
		if math.Abs(float64(longest)-result.Report.ITL.Max) > 1e-9 { // the report may count in whole ns
			t.Errorf("%s: longest gap of any request %v, the report says %v", name, longest, result.Report.ITL.Max)
		}
		if unknown > 0 {
			t.Errorf("%s: %d of %d longest gaps unknown", name, unknown, len(rows))
		}
		values := map[string]any{}
		for _, f := range result.Report.Fields() {
			values[f.Key] = f.Value()
		}
		for _, f := range requests.Totals(rows, false) {
			if values[f.Key] != f.Value() {
				t.Errorf("%s: rows give %s = %v, the report says %v", name, f.Key, f.Value(), values[f.Key])
			}
		}
	}
	if preempted == 0 || transferred == 0 {
		t.Errorf("%d preemptions and %d transfers in all runs, want some", preempted, transferred)
	}
}

// check checks the order of the times of a finished request.
func check(t *testing.T, name string, r *requests.Row, disaggregated bool) {
	t.Helper()
	near := func(a, b requests.MS) bool { return math.Abs(float64(a-b)) < 1e-9 }
	order := []requests.MS{r.Arrival, r.Routed, r.Admit, r.First, r.Second, r.Last}
	sum := r.Queue + r.Prefill
	if disaggregated {
		order = []requests.MS{r.Arrival, r.Routed, r.Admit, r.PrefillEnd, r.DecodeStart, r.DecodeAdmit, r.First, r.Second, r.Last}
		sum += r.Transfer + (r.First - r.DecodeStart)
	}
	for i := 1; i < len(order); i++ {
		if !(order[i] >= order[i-1]) {
			t.Errorf("%s: request %d: times %v are out of order", name, r.ID, order)
			return
		}
	}
	if !near(sum, r.TTFT) || !near(r.TTFT+(r.Last-r.First), r.E2E) {
		t.Errorf("%s: request %d: %+v does not add up", name, r.ID, *r)
	}
}
