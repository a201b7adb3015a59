package options

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const pickerYAML = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
featureGates:
  - flowControl
plugins:
  - name: ppc
    type: precise-prefix-cache-scorer
  - type: queue-scorer
  - type: kv-cache-utilization-scorer
  - type: max-score-picker
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: ppc
        weight: 3.0
      - pluginRef: kv-cache-utilization-scorer
        weight: 2.0
      - pluginRef: queue-scorer
        weight: 2.0
      - pluginRef: max-score-picker
`

// A picker is found as it stands and in the values of a chart, and what is not modelled is
// refused by name.
func TestReadPicker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "router.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chart := "inferenceExtension:\n  pluginsCustomConfig:\n    custom-plugins.yaml: |\n      " + strings.ReplaceAll(pickerYAML, "\n", "\n      ") + "\n"
	for _, text := range []string{pickerYAML, chart} {
		write(text)
		p, err := readPicker(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.String(); !strings.HasPrefix(got, "precise-prefix-cache-scorer 3 (between the fewest and the most), kv-cache-utilization-scorer 2, queue-scorer 2, max-score-picker, flow control; ") {
			t.Errorf("picker %s", got)
		}
		if p.Gate.Queue != 5 || p.Gate.KV != 0.8 {
			t.Errorf("gate %+v", p.Gate)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"a: 1\n", "no EndpointPickerConfig"},
		{"a: [1\n", path},
		{strings.Replace(pickerYAML, "queue-scorer\n", "load-aware-scorer\n", 1), `"queue-scorer" is none of the plugins`},
		{strings.Replace(pickerYAML, "type: precise-prefix-cache-scorer", "type: session-affinity-scorer", 1), `of type "session-affinity-scorer"`},
		{strings.Replace(pickerYAML, "weight: 3.0", "weight: -3.0", 1), "weight of ppc is -3"},
		{strings.Replace(pickerYAML, "type: precise-prefix-cache-scorer", "type: precise-prefix-scorer", 1), "which is unknown, did you mean precise-prefix-cache-scorer?"},
		{strings.Replace(pickerYAML, "name: ppc", "name: queue-scorer", 1), `two plugins are named "queue-scorer"`},
		{pickerYAML + "  - name: prefill\n", "2 schedulingProfiles, want one"},
		{strings.Replace(pickerYAML, "  - type: max-score-picker", "  - type: load-aware-scorer\n    parameters: {treshold: 5}\n  - type: max-score-picker", 1) + "      - pluginRef: load-aware-scorer\n", `parameters of load-aware-scorer: `},
		{strings.Replace(pickerYAML, "  - type: max-score-picker", "  - type: random-picker\n  - type: max-score-picker", 1) + "      - pluginRef: random-picker\n", `random-picker is a second picker`},
		{"kind: EndpointPickerConfig\n", "no scorer and no picker"},
		{"kind: EndpointPickerConfig\nplugins:\n- name: x\n", `plugin 1 ("x") has no type`},
	} {
		write(c.text)
		if _, err := readPicker(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// Each scorer has its own parameters, and what changes nothing is noted.
func TestReadScorers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "router.yaml")
	for _, c := range []struct{ plugins, want string }{
		{"- {type: precise-prefix-cache-scorer, parameters: {speculativeIndexing: true}}", `[{"Kind":"precise-prefix-cache-scorer","Weight":1,"Speculative":2000}]`},
		{"- {type: precise-prefix-cache-scorer, parameters: {speculativeIndexing: true, speculativeTTL: 500ms}}", `[{"Kind":"precise-prefix-cache-scorer","Weight":1,"Speculative":500}]`},
		{"- {type: prefix-cache-scorer}", `[{"Kind":"prefix-cache-scorer","Weight":1,"Longest":131072}]`},
		{"- {type: prefix-cache-scorer, parameters: {autoTune: false, lruCapacityPerServer: 9, maxPrefixBlocksToMatch: 4}}", `[{"Kind":"prefix-cache-scorer","Weight":1,"Capacity":9,"LongestBlocks":4}]`},
		{"- {type: approx-prefix-cache-producer, parameters: {autoTune: false}}\n- {type: prefix-cache-scorer}", `[{"Kind":"prefix-cache-scorer","Weight":1,"Capacity":31250,"Longest":131072}]`},
		{"- {type: precise-prefix-cache-producer, name: x}\n- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: x}}", `[{"Kind":"precise-prefix-cache-scorer","Weight":1}]`},
		{"- {type: load-aware-scorer}\n- {type: active-request-scorer, parameters: {idleThreshold: 2, maxBusyScore: 0.5}}", `[{"Kind":"load-aware-scorer","Weight":1,"Full":128},{"Kind":"active-request-scorer","Weight":1,"Idle":2,"Busy":0.5}]`},
		{"- {type: queue-scorer}\n- {type: tokenizer}", `[{"Kind":"queue-scorer","Weight":1}] [tokenizer (tokens are counted by the trace, in no time)]`},
	} {
		if err := os.WriteFile(path, []byte("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins:\n"+c.plugins+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := readPicker(path)
		if err != nil {
			t.Errorf("%s: %v", c.plugins, err)
			continue
		}
		text, err := json.Marshal(p.Scorers)
		if err != nil {
			t.Fatal(err)
		}
		got := string(text)
		if len(p.Idle) > 0 {
			got += fmt.Sprint(" ", p.Idle)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.plugins, got, c.want)
		}
	}
}
