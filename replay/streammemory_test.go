package replay_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// TestStreamedMemoryStays checks that the live heap of a streamed replay contains only requests in flight and caches,
// also after ten times the requests.
func TestStreamedMemoryStays(t *testing.T) {
	if testing.Short() || invariant.Enabled {
		t.Skip("replays 110,000 requests in each of many ways")
	}
	engine := func(more string) engineargs.Args {
		a, err := engineargs.Parse([]byte(`{"block_size":64,"num_gpu_blocks":300`+more+`}`), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a.Engine == engineargs.VLLM {
			a.Rules = releases.Rules033() // passes in whole ns; other passes have up to 2^19 different latencies
		}
		return a
	}
	prefill, decode := engine(""), engine("")
	prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
	pools := replay.TwoPools(replay.Pool{Engine: prefill, Count: 2}, replay.Pool{Engine: decode, Count: 2})
	type way struct {
		name   string
		change func(*replay.Spec)
	}
	ways := []way{
		{"vllm", func(*replay.Spec) {}},
		{"sglang", func(s *replay.Spec) { s.Pools[0].Engine = engine(`,"engine_type":"sglang"`) }},
		{"trtllm", func(s *replay.Spec) { s.Pools[0].Engine = engine(`,"engine_type":"trtllm"`) }},
		{"two pools", func(s *replay.Spec) { s.Pools = pools }},
	}
	classed := func(s *replay.Spec) {
		text, err := os.ReadFile(s.Trace.Path)
		if err == nil {
			err = os.WriteFile(s.Trace.Path, bytes.ReplaceAll(text, []byte(`"input_length"`), []byte(`"class":"chat","input_length"`)), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ways = append(ways, way{"classes", classed}, way{"rules of classes", func(s *replay.Spec) {
		s.Classes = []loadgen.Class{{Name: "long", When: "request.input_tokens > 200", Priority: 2, Ranked: true}}
	}})
	for i, choice := range streamedPolicies() {
		if i != 4 && i != 6 { // these remember the first block of each group, or each session
			ways = append(ways, way{string(rune('a'+i)) + " " + choice.Info().Report, func(s *replay.Spec) { s.Router = choice }})
		}
	}
	for _, w := range ways {
		var heap [2]float64
		for i, requests := range []int{10000, 100000} {
			spec := replay.Spec{
				Trace: &replay.Trace{Path: writeRandomTrace(t, rand.New(rand.NewPCG(1, 9)), requests, 1<<40, 0), BlockTokens: 64},
				Mode:  loadgen.Trace, Speedup: 1, Stream: &replay.Stream{},
			}
			spec.Pools = replay.OnePool(engine(""), 4)
			w.change(&spec)
			heap[i] = liveHeap(t, spec, requests)
		}
		t.Logf("%s: %.1f and %.1f MiB", w.name, heap[0], heap[1])
		if heap[1] > 1.2*heap[0]+0.75 { // 0.75 MiB for the waits in stretches
			t.Errorf("%s: %.1f MiB are live near the end of 10,000 requests, and %.1f of 100,000", w.name, heap[0], heap[1])
		}
	}
}

// liveHeap returns the live heap near the end of a replay, in MiB.
func liveHeap(t *testing.T, spec replay.Spec, requests int) (mib float64) {
	t.Helper()
	result, err := spec.Run(context.Background(), replay.Streams{
		Fold: &collector.Folding{},
		Stop: func(_ *collector.Collector, finished int) error {
			if mib == 0 && finished >= requests-100 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				mib = float64(m.HeapAlloc) / (1 << 20)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Report.Requests; got != requests {
		t.Fatalf("%d requests, want %d", got, requests)
	}
	if err := result.Collector.Close(); err != nil {
		t.Fatal(err)
	}
	return mib
}

// TestOnce checks that only the hash ids of a workload are freed when it is replayed once.
func TestOnce(t *testing.T) {
	spec := replay.Spec{
		Trace: &replay.Trace{Path: writeRandomTrace(t, rand.New(rand.NewPCG(1, 12)), 40000, 1000, 0), BlockTokens: 64},
		Mode:  loadgen.Trace, Speedup: 1,
	}
	spec.Pools, spec.Router = replay.OnePool(engineargs.Default(), 2), policy.KV
	var reports [2]*collector.Report
	for i, once := range []bool{false, true} {
		var opened *loadgen.Workload
		result, err := spec.Run(context.Background(), replay.Streams{Once: once, Opened: func(w *loadgen.Workload) { opened = w }})
		if err != nil {
			t.Fatal(err)
		}
		reports[i] = result.Report
		reports[i].WallMS, reports[i].ProcessedTokensPerS, reports[i].ProcessedOutputPerS = 0, 0, 0
		for _, turn := range opened.Turns {
			if (turn.IDs == nil) != once {
				t.Fatalf("hash ids %v of a workload that is replayed once: %v", turn.IDs, once)
			}
		}
	}
	if !reflect.DeepEqual(reports[0], reports[1]) {
		t.Errorf("%+v, want %+v", reports[1], reports[0])
	}
}
