package endpointpicker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadGuides reads the configurations in the chart of the gateway-api-inference-extension and in the guides of
// llm-d. Plugins that are not simulated are skipped with --endpoint-picker-skip.
func TestReadGuides(t *testing.T) {
	const load = "- {type: queue-scorer}\n- {type: kv-cache-utilization-scorer}\n"
	const one = "schedulingProfiles:\n- name: default\n  plugins:\n"
	const weights = "  - {pluginRef: queue-scorer, weight: 2}\n  - {pluginRef: kv-cache-utilization-scorer, weight: 2}\n"
	for _, c := range []struct{ name, text, want, refused string }{
		{"chart", "plugins:\n" + load + "- {type: prefix-cache-scorer}\n- {type: metrics-data-source, parameters: {scheme: http, path: /metrics, insecureSkipVerify: true}}\n- {type: core-metrics-extractor}\n" +
			one + weights + "  - {pluginRef: prefix-cache-scorer, weight: 3}\n", "queue-scorer 2, kv-cache-utilization-scorer 2, prefix-cache-scorer 3, max-score-picker; ", ""},
		{"optimized-baseline", "plugins:\n- {type: token-load-scorer}\n- {type: inflight-load-producer}\n- {type: approx-prefix-cache-producer, parameters: {maxPrefixTokensToMatch: 40960}}\n" +
			"- {type: prefix-cache-affinity-filter, parameters: {affinityThreshold: 0.80, maxTokensInFlightPenalty: 286720, maxTTFTPenaltyMs: 0}}\n" +
			one + "  - {pluginRef: prefix-cache-affinity-filter}\n  - {pluginRef: token-load-scorer}\n", "prefix-cache-affinity-filter (from 0.8 of the prompt on), token-load-scorer 1, max-score-picker", ""},
		{"tiered-prefix-cache", "plugins:\n" + load + "- {type: prefix-cache-scorer, name: gpu-prefix-cache-scorer}\n" +
			"- {type: approx-prefix-cache-producer, name: cpuPrefixProducer, parameters: {autoTune: false, lruCapacityPerServer: 41000}}\n" +
			"- {type: prefix-cache-scorer, name: cpu-prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: cpuPrefixProducer}}\n" +
			one + weights + "  - {pluginRef: gpu-prefix-cache-scorer, weight: 1.0}\n  - {pluginRef: cpu-prefix-cache-scorer, weight: 1.0}\n", "queue-scorer 2, kv-cache-utilization-scorer 2, prefix-cache-scorer 1, prefix-cache-scorer 1, max-score-picker; ", ""},
		{"flow-control", "featureGates: [flowControl]\nplugins:\n" + load + "- {type: prefix-cache-scorer}\n- {type: round-robin-fairness-policy}\n- {type: fcfs-ordering-policy}\n" +
			"- {type: concurrency-detector, parameters: {maxConcurrency: 132, concurrencyMode: requests, headroom: 0.0}}\n" +
			one + weights + "  - {pluginRef: prefix-cache-scorer, weight: 3}\n" +
			"flowControl:\n  maxBytes: 10Gi\n  maxRequests: 1k\n  defaultRequestTTL: 60s\n  saturationDetector: {pluginRef: concurrency-detector}\n  priorityBands:\n" +
			"  - {priority: 100, maxRequests: \"500\", fairnessPolicyRef: round-robin-fairness-policy, orderingPolicyRef: fcfs-ordering-policy}\n", "queue-scorer 2, kv-cache-utilization-scorer 2, prefix-cache-scorer 3, max-score-picker, flow control", "round-robin-fairness-policy"},
		{"precise-prefix-cache-routing", "plugins:\n- {type: tokenizer, parameters: {modelName: Qwen/Qwen3-32B, udsTokenizerConfig: {socketFile: /tmp/t}}}\n- {type: endpoint-notification-source}\n- {type: metrics-data-source}\n" +
			"- {type: core-metrics-extractor}\n- {type: single-profile-handler}\n- {type: decode-filter}\n- type: precise-prefix-cache-scorer\n  parameters: {tokenProcessorConfig: {blockSize: 64}, " +
			"speculativeIndexing: true, indexerConfig: {kvBlockIndexConfig: {enableMetrics: true}}, kvEventsConfig: {topicFilter: kv@, discoverPods: true}}\n" + load + "- {type: no-hit-lru-scorer}\n- {type: max-score-picker}\n" +
			"dataLayer:\n  sources:\n  - {pluginRef: endpoint-notification-source, extractors: [{pluginRef: precise-prefix-cache-scorer}]}\n" +
			one + "  - {pluginRef: decode-filter}\n" + weights + "  - {pluginRef: precise-prefix-cache-scorer, weight: 3.0}\n  - {pluginRef: no-hit-lru-scorer, weight: 2.0}\n  - {pluginRef: max-score-picker}\n",
			"queue-scorer 2, kv-cache-utilization-scorer 2, precise-prefix-cache-scorer 3 (what is sent counts for 2000 ms), no-hit-lru-scorer 2 (what is sent counts for 2000 ms), max-score-picker; ", ""},
		{"pd-disaggregation", "plugins:\n- {type: always-disagg-pd-decider}\n- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}\n- {type: prefill-filter}\n- {type: decode-filter}\n" +
			"- {type: approx-prefix-cache-producer, parameters: {maxPrefixTokensToMatch: 131072}}\n- {type: inflight-load-producer}\n- {type: prefix-cache-affinity-filter, parameters: {peakPrefillThroughput: 33821}}\n" +
			"- {type: token-load-scorer}\n- {type: active-request-scorer}\n- {type: max-score-picker}\nschedulingProfiles:\n" +
			"- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-affinity-filter}, {pluginRef: token-load-scorer}, {pluginRef: max-score-picker}]}\n" +
			"- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: active-request-scorer}, {pluginRef: max-score-picker}]}\n",
			"prefill workers: prefix-cache-affinity-filter (from 0.8 of the prompt on), token-load-scorer 1, max-score-picker; decode workers: active-request-scorer 1, max-score-picker; ", ""},
		{"pd-multi-tier", "plugins:\n- {type: disagg-headers-handler}\n- {type: always-disagg-pd-decider}\n- {type: disagg-profile-handler, parameters: {deciderPluginName: always-disagg-pd-decider}}\n- {type: prefill-filter}\n- {type: decode-filter}\n" +
			"- {type: token-producer, parameters: {modelName: openai/gpt-oss-120b}}\n- {type: endpoint-notification-source}\n- {type: metrics-data-source}\n- {type: core-metrics-extractor}\n" +
			"- {type: precise-prefix-cache-producer, parameters: {indexerConfig: {kvBlockIndexConfig: {inMemoryConfig: {podCacheSize: 20}}}, tokenProcessorConfig: {blockSizeTokens: 128}, speculativeIndexing: true, kvEventsConfig: {topicFilter: kv@}}}\n" +
			"- {type: prefix-cache-scorer, name: precise-prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}\n" + load + "- {type: active-request-scorer}\nschedulingProfiles:\n" +
			"- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: precise-prefix-cache-scorer, weight: 3}, {pluginRef: queue-scorer, weight: 2}, {pluginRef: kv-cache-utilization-scorer, weight: 2}]}\n" +
			"- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: active-request-scorer, weight: 2}]}\n",
			"prefill workers: precise-prefix-cache-scorer 3 (what is sent counts for 2000 ms), queue-scorer 2, kv-cache-utilization-scorer 2, max-score-picker; decode workers: active-request-scorer 2, max-score-picker; ", ""},
		{"gaie-pd", "plugins:\n- {type: prefill-header-handler}\n- {type: prefill-filter}\n- {type: decode-filter}\n- {type: queue-scorer}\n- {type: pd-profile-handler, parameters: {threshold: 0, hashBlockSize: 5}}\nschedulingProfiles:\n" +
			"- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer, weight: 1.0}]}\n- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer, weight: 1.0}]}\n",
			"prefill workers: queue-scorer 1, max-score-picker; decode workers: queue-scorer 1, max-score-picker; ", ""},
	} {
		path := filepath.Join(t.TempDir(), "router.yaml")
		if err := os.WriteFile(path, []byte("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"+c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Read(path)
		switch {
		case err == nil && c.refused != "":
			t.Errorf("%s is read, must be refused for %s", c.name, c.refused)
		case err == nil && !strings.HasPrefix(p.String(), c.want):
			t.Errorf("%s: %s, want %s", c.name, p, c.want)
		case err != nil && (c.refused == "" || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			continue
		}
		if p, err := Read(path, c.refused); err != nil || !strings.HasPrefix(p.String(), c.want) {
			t.Errorf("%s without %s: %v, %v, want %s", c.name, c.refused, p, err, c.want)
		}
	}
}
