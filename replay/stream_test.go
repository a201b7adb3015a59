package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

// writeRandomTrace writes requests with shared prompts. Some requests are up to disorder ms earlier than a row above.
func writeRandomTrace(t *testing.T, rng *rand.Rand, requests, contents int, disorder float64) string {
	t.Helper()
	type row struct {
		at   float64
		text string
	}
	rows := make([]row, requests)
	at := float64(rng.IntN(1000))
	for i := range rows {
		if rng.IntN(4) > 0 {
			at += rng.ExpFloat64() * 20
		}
		blocks := 1 + rng.IntN(6)
		ids := make([]string, blocks)
		for k := range ids {
			ids[k] = fmt.Sprint(rng.IntN(2 + contents*k)) // the same id occurs at several positions
		}
		priority := ""
		if rng.IntN(3) == 0 {
			priority = fmt.Sprintf(`"priority":%d,`, rng.IntN(3))
		}
		rows[i] = row{at, fmt.Sprintf(`{"timestamp":%v,%s"input_length":%d,"output_length":%d,"hash_ids":[%s]}`,
			at, priority, 64*blocks-rng.IntN(64), 1+rng.IntN(60), strings.Join(ids, ","))}
	}
	if disorder > 0 { // sort rows by their time plus a random delay
		keys := make(map[string]float64, requests)
		for i := range rows {
			rows[i].text += strings.Repeat(" ", i%7)
			keys[rows[i].text] = rows[i].at + rng.Float64()*disorder
		}
		slices.SortStableFunc(rows, func(a, b row) int {
			switch x, y := keys[a.text], keys[b.text]; {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
	}
	var text bytes.Buffer
	for _, r := range rows {
		fmt.Fprintln(&text, r.text)
	}
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeRandomSessions writes sessions with interleaved turns. Each prompt includes the earlier prompts and answers of
// its session.
func writeRandomSessions(t *testing.T, rng *rand.Rand, turns int) string {
	t.Helper()
	type session struct {
		ids   []string
		turns int
		at    float64
	}
	var text bytes.Buffer
	var all []*session
	at := float64(rng.IntN(1000))
	for i := range turns {
		at += rng.ExpFloat64() * 15
		k := rng.IntN(len(all) + 1)
		if k == len(all) || rng.IntN(3) == 0 {
			k = len(all)
			all = append(all, &session{at: at})
		}
		x := all[k]
		for range 1 + rng.IntN(3) {
			x.ids = append(x.ids, fmt.Sprint(rng.IntN(30+i)))
		}
		when := fmt.Sprintf(`"timestamp":%v`, at+float64(rng.IntN(2)*rng.IntN(40)))
		if x.turns > 0 && rng.IntN(2) == 0 {
			when = fmt.Sprintf(`"delay":%v`, float64(rng.IntN(300)))
		} else if x.turns > 0 {
			when = fmt.Sprintf(`"timestamp":%v`, at+100)
		}
		x.turns++
		fmt.Fprintf(&text, `{"session_id":"s%d",%s,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n",
			k, when, 64*len(x.ids)-rng.IntN(64), 1+rng.IntN(40), strings.Join(x.ids, ","))
	}
	path := filepath.Join(t.TempDir(), "sessions.jsonl")
	if err := os.WriteFile(path, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeRandomGraph writes tasks with requests that wait for several other requests. A task may be before or after the
// requests that it waits for.
func writeRandomGraph(t *testing.T, rng *rand.Rand, requests int) string {
	t.Helper()
	rows := make([]string, requests)
	for i := range rows {
		var after []string
		for k := rng.IntN(4); k > 0 && i > 0; k-- {
			after = append(after, fmt.Sprintf(`"r%d"`, max(0, i-1-rng.IntN(20))))
		}
		slices.Sort(after)
		wait := `,"after":[` + strings.Join(slices.Compact(after), ",") + `]`
		if len(after) == 0 {
			wait += fmt.Sprintf(`,"timestamp":%d`, rng.IntN(3000))
		} else if rng.IntN(2) == 0 {
			wait += fmt.Sprintf(`,"delay_ms":%d`, rng.IntN(300))
		}
		var ids []string
		for range 1 + rng.IntN(4) {
			ids = append(ids, fmt.Sprint(rng.IntN(40)))
		}
		rows[i] = fmt.Sprintf(`{"id":"r%d","input_length":%d,"output_length":%d,"hash_ids":[%s]%s}`, i, 64*len(ids)-rng.IntN(64), 1+rng.IntN(40), strings.Join(ids, ","), wait)
	}
	rng.Shuffle(requests, func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(rows, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// otherEngine returns an engine with the rules of SGLang, TensorRT-LLM or vLLM, and with features that simple engines
// do not have.
func otherEngine(t *testing.T, rng *rand.Rand, block, blocks int) engineargs.Args {
	t.Helper()
	size := fmt.Sprintf(`"block_size":%d,"num_gpu_blocks":%d`, block, blocks)
	a, err := engineargs.Parse([]byte([]string{
		`{"engine_type":"sglang",` + size + `}`,
		`{"engine_type":"sglang","sglang":{"disable_overlap_schedule":true,"schedule_policy":"lpm"},` + size + `}`,
		`{"engine_type":"sglang","kv_bytes_per_token":1000,"sglang":{"enable_hierarchical_cache":true},` + size + `}`,
		`{"engine_type":"trtllm",` + size + `}`,
		`{"engine_type":"trtllm","kv_bytes_per_token":1000,"trtllm":{"host_cache_size":500000},` + size + `}`,
		`{"scheduler_profile":"vllm-0.33","sliding_window":100,` + size + `}`,
	}[rng.IntN(6)]), engineargs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestStreamedEqualsKept compares a replay that does not keep its trace with a replay that has read the whole trace.
func TestStreamedEqualsKept(t *testing.T) {
	for seed := range long.Cases(uint64(40), 80) {
		rng := rand.New(rand.NewPCG(seed, 8))
		requests, contents := 50+rng.IntN(400), 40
		if seed%20 == 0 || seed%12 == 2 { // nodes are freed, and their ids reused
			requests, contents = 30000, 1<<40
		}
		disorder := float64(rng.IntN(2) * rng.IntN(200))
		spec := replay.Spec{
			Trace: &replay.Trace{Path: writeRandomTrace(t, rng, requests, contents, disorder), BlockTokens: 64},
			Mode:  loadgen.Trace, Speedup: []float64{1, 1, 3.5}[rng.IntN(3)],
		}
		if seed%4 == 1 {
			spec.Trace.Path = writeRandomSessions(t, rng, requests)
		}
		if seed%4 == 3 {
			spec.Trace.Path, spec.Trace.Format = writeRandomGraph(t, rng, min(requests, 2000)), "tasks"
		}
		engine := engineargs.Default()
		engine.BlockTokens, engine.Blocks = []int{16, 64}[rng.IntN(2)], 100+rng.IntN(400)
		if rng.IntN(2) == 0 {
			engine.Rules = releases.Rules033()
		}
		if seed%3 == 2 {
			engine = otherEngine(t, rng, engine.BlockTokens, engine.Blocks)
		}
		spec.Pools = replay.OnePool(engine, 1+rng.IntN(6))
		spec.Router = []policy.Name{policy.RoundRobin, policy.KV, "least-loaded"}[rng.IntN(3)]
		if spec.Router == policy.KV && (spec.Pools[0].Count == 1 || engine.Windows.Given()) {
			spec.Router = policy.RoundRobin
		}
		if rng.IntN(4) == 0 && !engine.SGLang.HiCache.On { // not on decode workers
			prefill, decode := engine, engine
			prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
			spec.Pools = replay.TwoPools(replay.Pool{Engine: prefill, Count: 2}, replay.Pool{Engine: decode, Count: 1 + rng.IntN(3)})
		}
		if rng.IntN(4) == 0 {
			spec.Until = sim.Time(500 + rng.IntN(3000))
		}
		if rng.IntN(4) == 0 {
			spec.Window = collector.Window{From: 100, To: sim.Time(400 + rng.IntN(3000))}
		}
		if spec.Reject = rng.IntN(3) == 0; spec.Reject {
			for i := range spec.Pools {
				// The pool is smaller than the longest request.
				spec.Pools[i].Engine.Blocks = 3 + 256/spec.Pools[i].Engine.BlockTokens
			}
		}
		compareStreamed(t, seed, spec)
	}
}

// compareStreamed compares the reports of a replay that does not keep its trace and of one that has read the whole
// trace.
func compareStreamed(t *testing.T, seed uint64, spec replay.Spec) {
	t.Helper()
	kept, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	spec.Stream = &replay.Stream{Window: 200}
	streamed, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for _, r := range []*collector.Report{kept.Report, streamed.Report} {
		r.WallMS, r.ProcessedTokensPerS, r.ProcessedOutputPerS = 0, 0, 0
	}
	if !reflect.DeepEqual(kept.Report, streamed.Report) {
		t.Fatalf("seed %d: %+v, want %+v", seed, streamed.Report, kept.Report)
	}
}

// streamedPolicies returns policies of files and gateways that remember prompts after their requests have left.
func streamedPolicies() []policy.Choice {
	sent := func(m policy.TextMemory) *policy.Text {
		return &policy.Text{Name: "sent", Scorers: []policy.TextScorer{
			{Weight: 2, Score: "sent_blocks"}, {Weight: 1, Cost: "requests"},
		}, Picker: policy.TakeHighest, Sent: m}
	}
	late := &policy.Text{Name: "late", Scorers: []policy.TextScorer{
		{Weight: 2, Score: "cached_blocks"}, {Weight: 1, Cost: "active_blocks - active_overlap"}, {Weight: 1, Cost: "waiting"},
	}, Picker: policy.TakeHighest, Signals: router.Signals{
		Index: &router.Age{Delay: 700}, Loads: &router.Age{Delay: 300}, Waiting: &router.Age{Delay: 20, Interval: 50},
	}}
	grouped := &policy.Text{
		Name: "grouped", Filters: []policy.TextFilter{{Keep: "index <= request.prefix_group"}, {Sample: 2}},
		Scorers: []policy.TextScorer{{Weight: 1, Cost: "tokens_to_compute"}}, Picker: policy.TakeHighest,
		Hold: &policy.TextHold{Above: "4 * pass_tokens"},
	}
	gateway := func(name, program string, blocks int) policy.Choice {
		g := policy.DefaultGatewaySettings(policy.Name(name))
		g.Gateway, g.EvictionIntervalSecs, g.MaxTreeSize = program, 1, 64*blocks
		return &policy.Gateway{Name: policy.Name(name), Settings: g}
	}
	return []policy.Choice{
		sent(policy.TextMemory{}), sent(policy.TextMemory{Blocks: 60}), sent(policy.TextMemory{For: 900}), late, grouped,
		&policy.Picker{Draw: policy.MaxScore, Scorers: []policy.Scorer{
			{Kind: policy.ApproximatePrefix, Weight: 3, Prefix: policy.Prefix{Capacity: 80, LongestBlocks: 6}}, {Kind: policy.ShortQueue, Weight: 1},
		}},
		&policy.Picker{Draw: policy.WeightedRandom, Scorers: []policy.Scorer{
			{Kind: policy.PrecisePrefix, Weight: 3, Prefix: policy.Prefix{Speculative: 800}}, {Kind: policy.SessionAffinity, Weight: 1},
		}},
		gateway("cache_aware", policy.SGLangRouter, 100), gateway("cache_aware", policy.VLLMRouter, 200), gateway("cache_aware", policy.SMG, 100),
	}
}

// TestStreamedPolicies checks that a policy in a file that remembers prompts makes the same choices as with all
// prompts kept. TestStreamedPolicies also checks such a policy behind an admission.
func TestStreamedPolicies(t *testing.T) {
	for seed := range long.Cases(uint64(30), 90) {
		rng := rand.New(rand.NewPCG(seed, 9))
		all := streamedPolicies()
		requests, contents := 50+rng.IntN(400), 40
		if seed < 10 { // nodes are freed, and their ids reused
			requests, contents = 12000, 1<<40
		}
		spec := replay.Spec{
			Trace: &replay.Trace{Path: writeRandomTrace(t, rng, requests, contents, 100), BlockTokens: 64},
			Mode:  loadgen.Trace, Speedup: 1,
		}
		if seed%4 == 1 {
			spec.Trace.Path = writeRandomSessions(t, rng, requests)
		}
		engine := engineargs.Default()
		engine.BlockTokens, engine.Blocks = 64, 100+rng.IntN(400)
		if rng.IntN(2) == 0 {
			engine.Rules = releases.Rules033()
		}
		spec.Pools = replay.OnePool(engine, 2+rng.IntN(5))
		spec.Router = all[int(seed)%len(all)]
		if rng.IntN(3) == 0 {
			spec.Admission = &policy.Admission{Name: "gate", Rules: []policy.AdmissionRule{
				{Decision: router.Shed, When: "min(requests) > 12 and request.prefix_group > 3"}, {Decision: router.Wait, When: "min(requests) > 4"},
			}}
		}
		compareStreamed(t, seed, spec)
	}
}

// TestStreamedProcess checks that a policy in a program gets the same requests.
func TestStreamedProcess(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 10))
	spec := replay.Spec{
		Trace: &replay.Trace{Path: writeRandomTrace(t, rng, 200, 40, 0), BlockTokens: 64},
		Mode:  loadgen.Trace, Speedup: 1,
	}
	spec.Router = &policy.Process{Command: `read hello; echo '{"version":1,"facts":["sent_blocks"]}'; n=0; while read line; do n=$(((n + ${#line}) % 3)); echo $n; done`}
	spec.Pools = replay.OnePool(engineargs.Default(), 3)
	compareStreamed(t, 1, spec)
}

// TestStreamedPools checks that prefill and decode pools free prompts with each kind of KV transfer.
func TestStreamedPools(t *testing.T) {
	threshold := 100
	for i, pd := range []*replay.PD{
		{Pull: true, HoldPrefill: true, DecodeChosen: engines.BeforePrefill},
		{Pull: true, HoldPrefill: true, DecodeChosen: engines.BeforeTransfer},
		{Pull: true, HoldPrefill: true, Push: true, DecodeChosen: engines.BeforePrefill},
		{Missing: true, Threshold: &threshold, DecodeChosen: engines.BeforePrefill},
		{HoldPrefill: true, DecodeAdmission: true, Sharing: engines.ShareFairly, NIC: 10, DecodeChosen: engines.BeforeTransfer},
		{Best: true, DecodeChosen: engines.BeforePrefill},
	} {
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 11))
			spec := replay.Spec{
				Trace: &replay.Trace{Path: writeRandomTrace(t, rng, 6000, 1<<40, 100), BlockTokens: 64},
				Mode:  loadgen.Trace, Speedup: 1,
			}
			if seed%2 == 1 {
				spec.Trace.Path = writeRandomSessions(t, rng, 400)
			}
			engine := engineargs.Default()
			engine.Rules, engine.BlockTokens, engine.Blocks = releases.Rules033(), 16, 600
			engine.KVBytesPerToken, engine.TransferGBPerSecond = 100000, 1
			prefill, decode := engine, engine
			prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
			spec.Pools = replay.TwoPools(replay.Pool{Engine: prefill, Count: 2}, replay.Pool{Engine: decode, Count: 2})
			spec.PD, spec.Router = pd, []policy.Name{policy.RoundRobin, policy.KV}[seed/2]
			compareStreamed(t, 100*uint64(i)+seed, spec)
		}
	}
}
