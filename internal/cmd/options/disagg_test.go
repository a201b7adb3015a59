package options

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// disaggYAML is the configuration of llm-d's guide pd-disaggregation with the decider that counts uncached tokens.
const disaggYAML = `apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: %d, promptTokens: %d}}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}
- {type: prefill-filter}
- {type: decode-filter}
- {type: approx-prefix-cache-producer}
- {type: inflight-load-producer}
- {type: prefix-cache-affinity-filter}
- {type: token-load-scorer}
- {type: active-request-scorer}
- {type: max-score-picker}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-affinity-filter}, {pluginRef: token-load-scorer}]}
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: active-request-scorer}]}
`

// routes records the workers of requests. A decode worker is recorded when the request is routed to it.
type routes struct {
	harness.NoObserver
	decode, prefill map[int]int
}

func (r *routes) Routed(stage scheduler.Role, _ sim.Time, x *router.Placement) {
	if stage == scheduler.Decode {
		r.decode[int(x.Request.ID)] = int(x.Worker)
		return
	}
	r.prefill[int(x.Request.ID)] = int(x.Worker)
}

// For 500 random traces, the rule in docs/router.md "Prefill and decode workers" selects the prompts on prefill workers.
// The test implements the rule with a search of all prompts that were sent to a decode worker. Requests arrive before
// the prompts of earlier requests are cached.
func TestSplitIsLiteral(t *testing.T) {
	const block = 16
	dir := t.TempDir()
	local, remote := 0, 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 6))
		uncached, least := 1+r.IntN(120), r.IntN(2)*r.IntN(200)
		config, trace := filepath.Join(dir, "router.yaml"), filepath.Join(dir, "trace.jsonl")
		if err := os.WriteFile(config, fmt.Appendf(nil, disaggYAML, uncached, least), 0o600); err != nil {
			t.Fatal(err)
		}
		var prompts [][]int // block ids; the last block may be incomplete
		var tokens []int
		var lines strings.Builder
		for i := range 12 {
			n := 1 + r.IntN(200)
			var ids []int
			if i > 0 && r.IntN(3) > 0 {
				ids = append(ids, prompts[r.IntN(i)]...)
				ids = ids[:r.IntN(len(ids)+1)]
			}
			for len(ids) < (n+block-1)/block {
				ids = append(ids, 1000*i+len(ids))
			}
			ids = ids[:(n+block-1)/block]
			prompts, tokens = append(prompts, ids), append(tokens, n)
			text, err := json.Marshal(map[string]any{"timestamp": 3 * i, "input_length": n, "output_length": 1 + r.IntN(20), "hash_ids": ids})
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(text, '\n'))
		}
		if err := os.WriteFile(trace, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		seen := &routes{decode: map[int]int{}, prefill: map[int]int{}}
		replayWith(t, "prefill-workers=2 decode-workers=2 scheduler-profile=vllm-0.33 block-size=16 trace-block-size=16", replay.Streams{Observer: seen},
			plan.Setting{Name: TraceSetting, Value: trace}, plan.Setting{Name: pickerFlag, Value: config})
		sent := map[int][]int{}   // requests by decode worker
		for id := range prompts { // in order of arrival
			matched := 0
			for _, before := range sent[seen.decode[id]] {
				n := 0
				for n < tokens[id]/block && n < tokens[before]/block && prompts[id][n] == prompts[before][n] {
					n++
				}
				matched = max(matched, n)
			}
			want := tokens[id] >= least && tokens[id]-matched*block >= uncached
			if _, got := seen.prefill[id]; got != want {
				t.Fatalf("seed %d, request %d of %d tokens, %d of them taken for cached: to a prefill worker %v, the rule says %v (nonCachedTokens %d, promptTokens %d)",
					seed, id, tokens[id], matched*block, got, want, uncached, least)
			}
			if want {
				remote++
			} else {
				local++
			}
			sent[seen.decode[id]] = append(sent[seen.decode[id]], id)
		}
		if len(seen.decode) != len(prompts) {
			t.Fatalf("seed %d: %d requests were given a decode worker, want %d", seed, len(seen.decode), len(prompts))
		}
	}
	if local < 1000 || remote < 1000 {
		t.Errorf("%d prompts stayed on decode workers and %d went to prefill workers, must be at least 1000 of both", local, remote)
	}
}
