package options

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/files"
)

// Each setting of the KV router, except router_assume_kv_reuse, is a change of its policy file (docs/policies.md).
// The changed file routes each request like the router with the setting.
func TestSettingsOfKVAsFiles(t *testing.T) {
	text, err := files.PolicyText("kv")
	if err != nil {
		t.Fatal(err)
	}
	workloads := []string{
		"workers=4" + synthetic, "workers=3 max-num-batched-tokens=512" + synthetic, "workers=5 max-in-flight=40 seed=7" + closed,
		"prefill-workers=3 decode-workers=4" + synthetic, "workers=3 speedup=20 trace=../../../testdata/traces/prefix_tree.jsonl",
	}
	hold := "hold: {above: 4 * pass_tokens, order: fcfs}\n"
	inUse := string(text[strings.Index(string(text), "- name: blocks in use"):strings.Index(string(text), hold)])
	prefill := string(text[strings.Index(string(text), "- name: blocks to prefill"):strings.Index(string(text), "- name: blocks in use")])
	for setting, change := range map[string][]string{
		"overlap-score-credit=0.3":                            {"block_tokens - cached_blocks", "block_tokens - 0.3 * cached_blocks"},
		"prefill-load-scale=2.5":                              {"- name: blocks to prefill\n", "- name: blocks to prefill\n  weight: 2.5\n"},
		"router-temperature=0.4":                              {hold, hold + "temperature: 0.4\n"},
		"router-track-active-blocks=false":                    {inUse, ""},
		"router-track-prefill-tokens=false":                   {prefill, "", hold, ""},
		"router-queue-threshold=0.1":                          {"4 * pass_tokens", "0.1 * pass_tokens"},
		"router-queue-threshold=0.1 router-queue-policy=wspt": {"4 * pass_tokens, order: fcfs", "0.1 * pass_tokens, order: wspt"},
		"router-queue-threshold=unlimited":                    {hold, ""},
	} {
		changed := strings.NewReplacer(change...).Replace(string(text))
		if changed == string(text) {
			t.Fatalf("%s: nothing is changed", setting)
		}
		file := filepath.Join(t.TempDir(), "kv.yaml")
		if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		differs := false
		for _, w := range workloads {
			want, got := place(t, w+" router=kv "+setting), place(t, w+" router-policy="+file)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s: placements differ", setting, w)
			}
			differs = differs || !slices.Equal(want, place(t, w+" router=kv"))
		}
		if !differs && !strings.Contains(setting, "unlimited") {
			t.Errorf("%s changes nothing in any workload", setting)
		}
	}
}
