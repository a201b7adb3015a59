package endpointpicker

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

// The configuration is found in a file of its type and in the values of a chart. Errors name unsupported plugins.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "router.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chart := "inferenceExtension:\n  pluginsCustomConfig:\n    custom-plugins.yaml: |\n      " + strings.ReplaceAll(pickerYAML, "\n", "\n      ") + "\n"
	for _, text := range []string{pickerYAML, chart} {
		write(text)
		p, err := Read(path)
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
		{strings.Replace(pickerYAML, "type: precise-prefix-cache-scorer", "type: latency-scorer", 1), `of type "latency-scorer", which is not simulated: --endpoint-picker-skip ppc leaves it out`},
		{strings.Replace(pickerYAML, "weight: 3.0", "weight: -3.0", 1), "weight of ppc is -3"},
		{strings.Replace(pickerYAML, "type: precise-prefix-cache-scorer", "type: precise-prefix-scorer", 1), "which is unknown, did you mean precise-prefix-cache-scorer?"},
		{strings.Replace(pickerYAML, "name: ppc", "name: queue-scorer", 1), `two plugins are named "queue-scorer"`},
		{pickerYAML + "  - name: prefill\n", "2 schedulingProfiles, must be one"},
		{strings.Replace(pickerYAML, "  - type: max-score-picker", "  - type: load-aware-scorer\n    parameters: {treshold: 5}\n  - type: max-score-picker", 1) + "      - pluginRef: load-aware-scorer\n", `parameters of load-aware-scorer: `},
		{strings.Replace(pickerYAML, "  - type: max-score-picker", "  - type: random-picker\n  - type: max-score-picker", 1) + "      - pluginRef: random-picker\n", `random-picker is a second picker`},
		{"kind: EndpointPickerConfig\n", "no filter, no scorer and no picker"},
		{"files:\n  b.yaml: |\n    kind: EndpointPickerConfig\n  a.yaml: |\n    kind: EndpointPickerConfig\n", "2 EndpointPickerConfigs in it (a.yaml, b.yaml), must be one, or the one that pluginsConfigFile names"},
		{"kind: EndpointPickerConfig\nplugins:\n- name: x\n", `plugin 1 ("x") has no type`},
	} {
		write(c.text)
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// Scorers have separate parameters. Plugins without effect are listed in notes.
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
		{"- {type: no-hit-lru-scorer}\n- {type: prefix-cache-scorer}", `[{"Kind":"no-hit-lru-scorer","Weight":1,"Longest":131072,"Match":"prefix-cache-scorer","Full":1024},{"Kind":"prefix-cache-scorer","Weight":1,"Longest":131072}]`},
		{"- {type: precise-prefix-cache-producer, name: x}\n- {type: no-hit-lru-scorer, parameters: {lruSize: 8, prefixMatchInfoProducerName: x}}", `[{"Kind":"no-hit-lru-scorer","Weight":1,"Match":"precise-prefix-cache-scorer","Full":8}]`},
		{"- {type: precise-prefix-cache-scorer}\n- {type: no-hit-lru-scorer}", `[{"Kind":"precise-prefix-cache-scorer","Weight":1},{"Kind":"no-hit-lru-scorer","Weight":1,"Match":"precise-prefix-cache-scorer","Full":1024}]`},
		{"- {type: queue-scorer}\n- {type: tokenizer}", `[{"Kind":"queue-scorer","Weight":1}] [tokenizer (tokens are counted by the trace, in no time)]`},
	} {
		if err := os.WriteFile(path, []byte("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins:\n"+c.plugins+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Read(path)
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

// Files of llm-d's guides and charts can be read. If a chart has several configurations, the selected one is read.
func TestReadChart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "values.yaml")
	text := `
router:
  epp:
    pluginsConfigFile: baseline.yaml
    pluginsCustomConfig:
      another.yaml: |
        kind: EndpointPickerConfig
        plugins: [{type: random-picker}]
      baseline.yaml: |
        apiVersion: llm-d.ai/v1alpha1
        kind: EndpointPickerConfig
        plugins:
        - type: token-load-scorer
        - type: inflight-load-producer
        - type: approx-prefix-cache-producer
          parameters: {maxPrefixTokensToMatch: 40960}
        - type: prefix-cache-affinity-filter
          parameters: {affinityThreshold: 0.80, maxTokensInFlightPenalty: 286720, maxTTFTPenaltyMs: 0}
        schedulingProfiles:
        - name: default
          plugins:
          - pluginRef: prefix-cache-affinity-filter
          - pluginRef: token-load-scorer
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(p.Picker)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Filters":[{"Kind":"prefix-cache-affinity-filter","Sticky":0.8,"Behind":286720,"Match":"prefix-cache-scorer","Longest":40960}],` +
		`"Scorers":[{"Kind":"token-load-scorer","Weight":1,"Full":4194304}],"Draw":"max-score-picker","Gate":null,"InFlight":{"Match":"prefix-cache-scorer","Longest":40960}}`
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Parameters of filters, detectors and ceilings are read and checked.
func TestReadFilters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "router.yaml")
	const gated = "featureGates: [flowControl]\nflowControl: {usageLimitPolicyPluginRef: x}\nplugins:\n- {type: queue-scorer}\n"
	for _, c := range []struct{ text, want string }{
		{"plugins:\n- {type: prefix-cache-affinity-filter}\n", `"Filters":[{"Kind":"prefix-cache-affinity-filter","Sticky":0.8,"Slower":18000,"Throughput":15928,"Match":"prefix-cache-scorer","Longest":131072}]`},
		{"plugins:\n- {type: precise-prefix-cache-producer, name: p, parameters: {speculativeIndexing: true}}\n- {type: prefix-cache-affinity-filter, parameters: {prefixMatchInfoProducerName: p, maxTTFTPenaltyMs: 0}}\n",
			`"Sticky":0.8,"Match":"precise-prefix-cache-scorer","Speculative":2000}`},
		{"plugins:\n- {type: concurrency-detector, parameters: {headroom: 0.2}}\n", `{"Kind":"concurrency-detector","Requests":120}`},
		{"plugins:\n- {type: concurrency-detector, parameters: {concurrencyMode: hybrid, maxConcurrency: 4}}\n", `{"Kind":"concurrency-detector","Requests":4,"Tokens":1000000}],"Scorers":null,"Draw":"max-score-picker","Gate":null,"InFlight":{}}`},
		{"plugins:\n- {type: utilization-detector, parameters: {queueDepthThreshold: 10, headroom: 0.5}}\n", `{"Kind":"utilization-detector","Queue":15,"KV":1.2000000000000002}`},
		{"plugins:\n- {type: session-affinity-filter, parameters: {headerName: x}}\n", `{"Kind":"session-affinity-filter"}`},
		{"featureGates: [flowControl]\nsaturationDetector: {pluginRef: d}\nplugins:\n- {type: queue-scorer}\n- {type: concurrency-detector, name: d, parameters: {concurrencyMode: tokens}}\n", `"Gate":{"Queue":0,"KV":0,"Each":1,"Tokens":1000000}`},
		{"featureGates: [flowControl]\nplugins:\n- {type: queue-scorer}\n- {type: inflight-load-producer}\n", `"Gate":{"Queue":5,"KV":0.8,"Each":1,"Unseen":true}`},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {minCeiling: 0.4}}\n", `"Ceilings":{"Least":0.4,"Most":1}`},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {minCeiling: 0.4, maxCeiling: 0.9, domain: value}}\n", `"Ceilings":{"Least":0.4,"Most":0.9,"ByValue":true}`},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {domain: explicit, ceilings: {100: 0.9, 10: 0.3}}}\n", `"Ceilings":{"Of":[{"Priority":-100,"Share":0.9},{"Priority":-10,"Share":0.3}]}`},
		{gated + "- {type: static-usage-limit-policy, name: x}\n", `"Gate":{"Queue":5,"KV":0.8,"Each":1}`},

		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {affinityThreshold: 1.5}}\n", "affinityThreshold is 1.5, must be from 0 to 1"},
		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {explorationProbability: -1}}\n", "explorationProbability is -1, must be from 0 to 1"},
		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {maxTTFTPenaltyMs: -1}}\n", "maxTTFTPenaltyMs is -1, must be a number of at least 0"},
		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {maxTokensInFlightPenalty: -1}}\n", "maxTokensInFlightPenalty is -1, must be at least 0"},
		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {peakPrefillThroughput: 0}}\n", "peakPrefillThroughput is 0, must be above 0"},
		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {ttftSource: latencyPredictor}}\n", `ttftSource is "latencyPredictor", and only prefillThroughput is simulated`},
		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {penaltySource: sessionCost}}\n", `penaltySource is "sessionCost", and only constant is simulated`},
		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {prefillCalibrationFile: a.json}}\n", `prefillCalibrationFile is "a.json", which is not read: set peakPrefillThroughput to the value in it`},
		{"plugins:\n- {type: prefix-cache-affinity-filter, parameters: {prefixMatchInfoProducerName: p}}\n", `prefixMatchInfoProducerName is "p", which is none of the producers of prefixes`},
		{"plugins:\n- {type: concurrency-detector, parameters: {concurrencyMode: some}}\n", `concurrencyMode is "some", must be requests, tokens or hybrid`},
		{"plugins:\n- {type: concurrency-detector, parameters: {maxConcurrency: 0}}\n", "maxConcurrency is 0, must be above 0"},
		{"plugins:\n- {type: concurrency-detector, parameters: {maxTokenConcurrency: -2}}\n", "maxTokenConcurrency is -2, must be above 0"},
		{"plugins:\n- {type: concurrency-detector, parameters: {headroom: -2}}\n", "headroom is -2, must be at least 0"},
		{"plugins:\n- {type: concurrency-detector, parameters: {failOpen: false}}\n", "failOpen is false, and only true is simulated"},
		{"plugins:\n- {type: utilization-detector, parameters: {headroom: -2}}\n", "headroom is -2, must be at least 0"},
		{"plugins:\n- {type: token-load-scorer}\n- {type: inflight-load-producer, parameters: {addEstimatedOutputTokens: true}}\n", "addEstimatedOutputTokens is true, and only false is simulated"},
		{"featureGates: [flowControl]\nsaturationDetector: {pluginRef: d}\nplugins:\n- {type: queue-scorer}\n", `pluginRef "d" of saturationDetector is none of the plugins`},
		{"featureGates: [flowControl]\nsaturationDetector: {pluginRef: queue-scorer}\nplugins:\n- {type: queue-scorer}\n", "saturationDetector is queue-scorer of type queue-scorer, must be a utilization-detector or a concurrency-detector"},
		{gated, `usageLimitPolicyPluginRef is "x", which is none of the plugins`},
		{gated + "- {type: priority-holdback-policy, name: x}\n", "minCeiling must be given, from 0 to 1"},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {minCeiling: 0.5, maxCeiling: 0.4}}\n", "maxCeiling is 0.4, must be from minCeiling to 1"},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {minCeiling: 0.5, domain: some}}\n", `domain is "some", must be rank, value or explicit`},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {minCeiling: 0.5, shape: round}}\n", `shape is "round", must be linear`},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {domain: explicit}}\n", "domain is explicit, which takes ceilings"},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {domain: explicit, ceilings: {1: 2}}}\n", "the ceiling of 1 is 2, must be from 0 to 1"},
		{gated + "- {type: priority-holdback-policy, name: x, parameters: {domain: explicit, ceilings: {1: 0.5, 2: 0.4}}}\n", "the ceiling of 2 is below that of 1, must not fall as priorities rise"},
	} {
		if err := os.WriteFile(path, []byte("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n"+c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		if p, err := Read(path); err != nil {
			got = err.Error()
		} else if text, err := json.Marshal(p.Picker); err == nil {
			got = string(text)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

// Plugins are skipped by name or type. A note lists each skipped plugin.
func TestSkipPlugins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "router.yaml")
	text := strings.Replace(pickerYAML, "type: precise-prefix-cache-scorer", "type: no-hit-lru-scorer", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ppc", "no-hit-lru-scorer"} {
		p, err := Read(path, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.String(); !strings.Contains(got, "without effect: ppc (left out by --endpoint-picker-skip)") || len(p.Scorers) != 2 {
			t.Errorf("without %s: %s", name, got)
		}
	}
	if _, err := Read(path, "pcc"); err == nil || !strings.Contains(err.Error(), `--endpoint-picker-skip: "pcc" is no plugin of it, did you mean ppc?`) {
		t.Error(err)
	}
}
