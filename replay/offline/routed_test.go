package offline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// TestRoutedExamples replays the worked examples of the KV router (docs/rules/router.md "Cost"). TestRoutedExamples
// checks every placement with its cost, and the report.
func TestRoutedExamples(t *testing.T) {
	for _, e := range slices.Concat(routedExamples(), queueExamples(), stagedExamples()) {
		t.Run(e.name, func(t *testing.T) {
			if e.workers == 0 {
				e.workers = 2
			}
			e.run(t)
			x := &trial{cfg: e.config(t)}
			out := x.run(byCluster)
			if got := placements(out.calls, x.cfg.Disaggregated()); got != e.placed {
				t.Errorf("placed:\n%s\nwant:\n%s", got, e.placed)
			}
		})
	}
}

// placements formats the placements of routers. Request A is the first to arrive.
func placements(calls []call, disaggregated bool) string {
	var out []string
	for _, c := range calls {
		if c.what != "placed" {
			continue
		}
		where := fmt.Sprintf("w%d", c.worker)
		if disaggregated {
			where = [...]string{"prefill", "decode"}[c.pool]
		}
		out = append(out, fmt.Sprintf("%c %s %.4g", 'A'+rune(c.request), where, c.cost))
	}
	return strings.Join(out, ", ")
}

// prompts returns a trace with one request per word, "arrival:ids", of 64 tokens per id and 4 output tokens;
// "arrival:ids/input" sets the prompt length.
func prompts(text string) string {
	var out strings.Builder
	for word := range strings.FieldsSeq(text) {
		at, ids, _ := strings.Cut(word, ":")
		ids, input, ok := strings.Cut(ids, "/")
		if !ok {
			input = fmt.Sprint(64 * (strings.Count(ids, ",") + 1))
		}
		fmt.Fprintf(&out, `{"timestamp":%s,"input_length":%s,"output_length":4,"hash_ids":[%s]}`+"\n", at, input, ids)
	}
	return out.String()
}

func routedExamples() []example {
	affinity := prompts("0:1,2,3,4 1:1,2,3,5 2:1,2,3,4")
	weights := prompts("0:1,2,3,4,5,6,7,8 200:1,2,3,4,5,6,7,8 201:1,2,3,4,9,10,11,12 202:1,2,3,4,5,6,7,8")
	again := prompts("0:1,2,3,4 100:1,2,3,4 200:1,2,3,4")
	switched := func(config, placed string) example {
		return example{name: "9.3 " + config, trace: affinity, router: config, placed: placed}
	}
	return []example{
		{
			name: "9.1 cache affinity", router: "{}", trace: prompts("0:1,2,3,4 200:1,2,3,5 400:1,2"),
			placed: "A w0 8, B w0 5, C w0 2",
			report: `
				duration_ms 422.99626
				min_ttft_ms 5.7465930000000185
				median_ttft_ms 23.228070000000002
				max_ttft_ms 26.169156
				max_e2e_latency_ms 43.438596000000004
				prefix_cache_reused_ratio 0.5`,
		}, {
			name: "9.2 load against cache", router: "{}", trace: affinity,
			placed: "A w0 8, B w1 8, C w0 8",
			report: `
				duration_ms 49.201668
				min_ttft_ms 26.169156
				max_ttft_ms 29.925636
				max_e2e_latency_ms 47.201668
				prefix_cache_reused_ratio 0.3333333333333333`,
		},
		switched(`{"router_track_active_blocks":false}`, "A w0 4, B w1 4, C w0 4"),
		switched(`{"router_assume_kv_reuse":false}`, "A w0 8, B w1 8, C w0 12"),
		switched(`{"router_track_prefill_tokens":false}`, "A w0 4, B w1 4, C w0 4"),
		switched(`{"overlap_score_credit":0.5}`, "A w0 8, B w1 8, C w0 10"),
		switched(`{"prefill_load_scale":0}`, "A w0 4, B w1 4, C w0 4"),
		switched(`{"overlap_score_weight":2}`, "A w0 12, B w1 12, C w0 12"),
		{
			name: "9.4 weights", router: `{"overlap_score_credit":0.25,"prefill_load_scale":2.0}`, trace: weights,
			placed: "A w0 24, B w0 20, C w1 24, D w0 20",
			report: `
				duration_ms 248.46105300000005
				min_ttft_ms 5.766366000000005
				max_ttft_ms 30.15207000000001
				prefix_cache_reused_ratio 0.5`,
		}, {
			name: "9.9a prefix caching off", router: "{}", trace: again,
			engine: `{"block_size":64,"enable_prefix_caching":false}`,
			placed: "A w0 8, B w0 4, C w0 4",
			report: `prefix_cache_reused_ratio 0.0`,
		}, {
			name: "9.9b partial blocks", router: "{}", trace: prompts("0:1,2,3/150 100:1,2,3/190 200:1/30"),
			placed: "A w0 4.344, B w0 2.969, C w0 0.4688",
		},
	}
}

func queueExamples() []example {
	held := prompts("0:1,2,3,4 1:5,6,7,8 2:11,12,13,14,15,16,17,18 3:21,22 4:31,32,33,34")
	queue := func(name, config, placed, report string) example {
		return example{
			name: "9.5 " + name, router: config, trace: held, engine: `{"block_size":64,"max_num_batched_tokens":256}`,
			placed: "A w0 8, B w1 8, " + placed, report: "min_ttft_ms 26.169156\n" + report,
		}
	}
	fcfs := `
		duration_ms 118.146411
		median_ttft_ms 50.323992
		max_ttft_ms 98.837428
		max_e2e_latency_ms 116.146411`
	lcfs := `
		duration_ms 121.10455999999999
		median_ttft_ms 50.323992
		max_ttft_ms 101.78569399999999
		max_e2e_latency_ms 119.10455999999999`
	engineLCFS := queue("the engine's policy wins", `{"router_queue_threshold":0.5,"router_queue_policy":"wspt"}`, "E w0 12, D w1 8, C w1 24", lcfs)
	engineLCFS.engine = `{"block_size":64,"max_num_batched_tokens":256,"router_queue_policy":"lcfs"}`
	return []example{
		queue("fcfs", `{"router_queue_threshold":0.5}`, "C w0 20, D w1 8, E w1 16", fcfs),
		queue("lcfs", `{"router_queue_threshold":0.5,"router_queue_policy":"lcfs"}`, "E w0 12, D w1 8, C w1 24", lcfs),
		engineLCFS,
		queue("wspt", `{"router_queue_threshold":0.5,"router_queue_policy":"wspt"}`, "D w0 8, E w0 16, C w1 20", `
			duration_ms 119.146411
			median_ttft_ms 49.323992
			max_ttft_ms 99.837428
			max_e2e_latency_ms 117.146411`),
		queue("no queue", `{"router_queue_threshold":null}`, "C w0 24, D w1 12, E w1 20", fcfs),
		queue("threshold 0", `{"router_queue_threshold":0}`, "C w0 20, D w1 8, E w1 14", `
			duration_ms 118.146411
			median_ttft_ms 48.384024999999994
			max_ttft_ms 98.837428
			max_e2e_latency_ms 116.146411`),
		{
			// The overlap is the cached prefix at a request's arrival, not at its placement.
			name: "9.6 frozen overlap", router: `{"router_queue_threshold":0.5}`,
			trace: prompts("0:1,2,3,4 0:5,6,7,8 0:1,2,3,4"), engine: `{"block_size":64,"max_num_batched_tokens":256}`,
			placed: "A w0 8, B w1 8, C w0 8",
			report: `
				duration_ms 49.201668
				prefix_cache_reused_ratio 0.3333333333333333`,
		},
	}
}

func stagedExamples() []example {
	return []example{{
		name: "9.7 eviction", router: "{}",
		prefill: `{"block_size":64,"worker_type":"prefill","num_gpu_blocks":8}`, decode: decodeArgs,
		trace: prompts("0:1,2,3,4 100:1,2,3,4 200:5,6,7,8,9,10 300:1,2,3,4 400:5,6,7,8,9,10"),
		placed: "A prefill 4, A decode 4, B prefill 0, B decode 4, C prefill 6, C decode 6, " +
			"D prefill 3, D decode 4, E prefill 3, E decode 6",
		report: `
			duration_ms 442.4811490000001
			min_ttft_ms 5.753185000000002
			median_ttft_ms 25.191936
			max_ttft_ms 28.153715999999974
			max_e2e_latency_ms 45.442928999999964
			prefix_cache_reused_ratio 0.5833333333333334`,
	}, {
		name: "9.8 prefill queue", router: `{"router_queue_threshold":1,"router_queue_policy":"wspt"}`,
		prefill: `{"block_size":64,"worker_type":"prefill","max_num_batched_tokens":128}`, decode: decodeArgs,
		trace:  prompts("0:1,2,3,4 1:5,6 2:7 3:8,9,10,11"),
		placed: "A prefill 4, C prefill 1, B prefill 3, A decode 4, D prefill 6, C decode 5, B decode 3, D decode 4",
		report: `
			duration_ms 132.7565
			min_ttft_ms 42.656781
			median_ttft_ms 81.91588800000001
			max_ttft_ms 112.48706
			max_e2e_latency_ms 129.7565`,
	}}
}

// TestDisaggregatedExamples checks that separate prefill and decode workers take the same time as one worker, unless
// a KV cache has to be transferred.
func TestDisaggregatedExamples(t *testing.T) {
	const decode = `{"block_size":4,"worker_type":"decode"}`
	for _, test := range []struct{ prefill, decode, report string }{
		{`{"block_size":4,"worker_type":"prefill"}`, decode, "max_ttft_ms 22.497647999999998\nduration_ms 34.010608"},
		{`{"block_size":4,"worker_type":"prefill"}`, `{"block_size":4,"worker_type":"decode","max_num_batched_tokens":2}`,
			"max_ttft_ms 22.497647999999998\nduration_ms 34.010608"},
		{`{"block_size":4,"worker_type":"prefill","max_num_batched_tokens":15}`, decode, "max_ttft_ms 38.999055\nduration_ms 50.51201499999999"},
		{`{"block_size":4,"worker_type":"prefill","kv_transfer_bandwidth":1.0,"kv_bytes_per_token":1000000}`, decode,
			"max_ttft_ms 38.497648\nduration_ms 50.01060799999999"},
		{`{"block_size":4,"worker_type":"prefill","kv_transfer_bandwidth":3.0,"kv_bytes_per_token":7}`, decode, "max_ttft_ms 22.497685333333337"},
	} {
		e := example{
			name: test.prefill + " " + test.decode, block: 4, prefill: test.prefill, decode: test.decode, report: test.report,
			trace: `{"timestamp":0,"input_length":16,"output_length":3,"hash_ids":[1,2,3,4]}`,
		}
		t.Run(e.name, e.run)
	}
}

// TestScalingExample replays the worked example of scaling between steps (docs/rules/harness.md "Scaling").
// TestScalingExample checks the clock, the active workers, all workers, and the passes of each step.
func TestScalingExample(t *testing.T) {
	var trace strings.Builder
	for i := range 12 {
		fmt.Fprintf(&trace, `{"timestamp":%d,"input_length":200,"output_length":10,"hash_ids":[%d,%d,%d,%d]}`+"\n", 40*i, 4*i, 4*i+1, 4*i+2, 4*i+3)
	}
	e := example{trace: trace.String(), engine: `{"block_size":64,"startup_time":0.1}`}
	s, err := NewStepper(e.config(t))
	if err != nil {
		t.Fatal(err)
	}
	scale := func(n int) {
		t.Helper()
		if err := s.Scale(engines.KeepSize, n); err != nil {
			t.Fatal(err)
		}
	}
	snapshots := s.cluster.pools[0].workers[0].core.Able().Has(scheduler.Shows)
	step := func(until sim.Time, want string, passes int) {
		t.Helper()
		st, err := s.AdvanceTo(t.Context(), until)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%v: %d/%d, done %v", float64(st.Now), st.Decode.Active, st.Decode.Total, st.Done)
		if got != want {
			t.Errorf("until %v: %s, want %s", float64(until), got, want)
		}
		if n := len(st.Decode.Passes); snapshots && n != passes {
			t.Errorf("until %v: %d passes, want %d", float64(until), n, passes)
		}
	}
	step(100, "85.18810000000002: 1/1, done false", 9)
	s.Traffic()
	scale(3)
	step(150, "147.402994: 1/3, done false", 4)
	step(210, "207.38839399999995: 3/3, done false", 8)
	traffic := Traffic{
		Seconds: 0.12220029399999993, Requests: 3, MeanISL: 200, MeanOSL: 10,
		MeanTTFT: 27.906575666666672, MeanITL: 10.11727848148148,
	}
	if got := s.Traffic(); got != traffic {
		t.Errorf("traffic %+v, want %+v", got, traffic)
	}
	scale(1) // worker 2 is idle and removed at once, worker 1 after its requests
	step(210, "207.38839399999995: 1/2, done false", 0)
	step(260, "259.827243: 1/2, done false", 13)
	scale(2) // worker 3 starts, worker 1 does not return
	step(300, "284.5015539999999: 1/2, done false", 6)
	step(1e9, "517.0867979999998: 2/2, done true", 42)
	result, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	checkReport(t, result.Report, `
		completed_requests 12
		duration_ms 517.0867979999998
		min_ttft_ms 25.308132999999998
		max_ttft_ms 30.522592000000017
		median_itl_ms 5.766366000000005`)
}

// TestScalingBehindRouter checks that a new worker gets the held requests at once.
func TestScalingBehindRouter(t *testing.T) {
	e := example{
		trace:  prompts("0:1,2,3,4 1:5,6,7,8 2:1,2,3,4 100:1,2,3,4 200:1,2,3,4 300:1,2,3,4"),
		engine: `{"block_size":64,"max_num_batched_tokens":256}`, router: `{"router_queue_threshold":0.5}`,
	}
	s, err := NewStepper(e.config(t))
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{}
	p := s.cluster.pools[0]
	p.Router = &listener{p.Router, 0, j}
	scale := func(n int) {
		t.Helper()
		if err := s.Scale(engines.KeepSize, n); err != nil {
			t.Fatal(err)
		}
	}
	step := func(until, now sim.Time, placed string) {
		t.Helper()
		st, err := s.AdvanceTo(t.Context(), until)
		if err != nil {
			t.Fatal(err)
		}
		if got := placements(j.calls, false); st.Now != now || got != placed {
			t.Errorf("at %v: %s; want at %v: %s", float64(st.Now), got, float64(now), placed)
		}
		j.calls = nil
	}
	step(5, 2, "A w0 8")
	scale(2)
	step(150, 123.02262499999999, "B w1 8, C w0 4, D w0 4")
	want := Traffic{Requests: 4, MeanISL: 256, MeanOSL: 4, MeanReuse: 0.5}
	if got := s.Traffic(); got.Requests != want.Requests || got.MeanISL != want.MeanISL || got.MeanOSL != want.MeanOSL || got.MeanReuse != want.MeanReuse {
		t.Errorf("traffic %+v, want %+v", got, want)
	}
	scale(1)
	if _, err := s.AdvanceTo(t.Context(), 290); err != nil {
		t.Fatal(err)
	}
	if got := placements(j.calls, false); got != "E w0 4" {
		t.Errorf("placed %s, want E w0 4", got)
	}
	scale(0)
	if _, err := s.AdvanceTo(t.Context(), 1000); err == nil || !strings.Contains(err.Error(), "no endpoints available to route work") {
		t.Errorf("error %v, want one of no endpoints", err)
	}
}
