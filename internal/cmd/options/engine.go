package options

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/sglang"
)

// engine holds a flag for each engine argument that has an effect.
type engine struct {
	Settings []Setting
	// own are flags for one of two pools, prefill and decode, by pool.
	Own [2][]Setting
}

// EngineSettings returns a flag for each engine argument that has an effect.
func EngineSettings() []Setting {
	return append(append(HardwareSettings(), []Setting{
		{Name: "engine", Key: "engine_type", kind: "name", preset: "vllm", Names: []string{"vllm", "sglang"}, help: "engine, by `name`: vllm or sglang"},
		{Name: "num-gpu-blocks", Key: "num_gpu_blocks", kind: "int", preset: "16384", help: "KV `blocks` of a worker"},
		{Name: "block-size", Key: "block_size", kind: "int", preset: "64 for vllm, 16 with --gpu; 1 for sglang", cluster: true, help: "`tokens` per KV block"},
		{Name: "page-size", Key: "block_size", kind: "int", preset: "1", engine: "sglang", cluster: true, help: "sglang: another name of --block-size, in `tokens`"},
		{Name: "max-num-seqs", Key: "max_num_seqs", kind: "limit", preset: "256; with --gpu as a server of vLLM on it", engine: "vllm", help: "`requests` a worker runs at once, or unlimited"},
		{Name: "max-num-batched-tokens", Key: "max_num_batched_tokens", kind: "limit", preset: "8192; with --gpu as a server of vLLM on it", help: "`tokens` a vllm worker computes per pass, or unlimited; the KV router reads it for both engines"},
		{Name: "enable-prefix-caching", Key: "enable_prefix_caching", kind: "bool", preset: "true", help: "reuse KV blocks across requests; =false turns it off"},
		{Name: "enable-chunked-prefill", Key: "enable_chunked_prefill", kind: "bool", preset: "true", engine: "vllm", help: "cut prompts that exceed what is left of a pass; =false turns it off"},
		{Name: "preemption-mode", Key: "preemption_mode", kind: "name", preset: "lifo", Names: []string{"lifo", "fifo"}, engine: "vllm", help: "who is preempted first: lifo or fifo, by `name`"},
		{Name: "scheduling-policy", Key: "scheduling_policy", kind: "name", preset: "fcfs", Names: []string{"fcfs", "priority"}, engine: "vllm", help: "who is admitted first, by vLLM's own rules: fcfs or priority, by `name`"},
		{Name: "speculative-config", Key: "speculative_config", kind: "object", preset: "no drafts", help: "speculative decoding: vLLM's `JSON` object, with how many drafts are accepted; for sglang this alone"},
		{Name: "num-speculative-tokens", Key: "speculative_config.num_speculative_tokens", kind: "int", preset: "no drafts", engine: "vllm", help: "speculative decoding: `drafts` per request and pass"},
		{Name: "acceptance-rate", Key: "speculative_config.acceptance_rate", kind: "range", preset: "none", help: "speculative decoding: share `R` of drafts after accepted ones that are accepted, or R..R for each request to draw from"},
		{Name: "speedup-ratio", Key: "speedup_ratio", kind: "number", preset: "1", help: "divide the time of every pass by `R`; 0 leaves it"},
		{Name: "decode-speedup-ratio", Key: "decode_speedup_ratio", kind: "number", preset: "1", cluster: true, help: "divide the time of decoding by a further `R`; 0 leaves it unscaled"},
		{Name: "planner-profile-data", Key: "planner_profile_data", kind: "path", preset: "a built-in model", help: "`file` of measured pass times (.npz)"},
		{Name: "timing-profile", Key: "planner_profile_data", kind: "path", preset: "a built-in model", help: "`file` of pass times: a profile of replay calibrate, or .npz"},
		{Name: "scheduler-profile", Key: "scheduler_profile", kind: "name", preset: "reference for vllm, sglang-0.5.23 for sglang", Names: RuleNames(), help: "whose rules the scheduler follows: the reference's, or those of a release of vLLM or SGLang, by `name`"},
		{Name: "kv-bytes-per-token", Key: "kv_bytes_per_token", kind: "int", preset: "unknown", cluster: true, help: "`bytes` of KV cache per token, for handoffs to decode workers and for offload"},
		{Name: "kv-transfer-bandwidth", Key: "kv_transfer_bandwidth", kind: "number", preset: "handoffs take no time", cluster: true, help: "`GB/s` from prefill to decode workers"},
		{Name: "kv-transfer-latency-ms", Key: "kv_transfer_latency_ms", kind: "number", preset: "0", cluster: true, help: "`ms` of each transfer from prefill to decode workers, whatever its size"},
		{Name: "num-g2-blocks", Key: "num_g2_blocks", kind: "int", preset: "no offload", engine: "vllm", help: "KV `blocks` in host memory, behind those of the GPU"},
		{Name: "offload-batch-size", Key: "offload_batch_size", kind: "int", preset: "32", engine: "vllm", help: "KV `blocks` per transfer to the host"},
		{Name: "bandwidth-g1-to-g2-gbps", Key: "bandwidth_g1_to_g2_gbps", kind: "number", preset: "14", help: "`GB/s` to the host; 0: transfers take no time"},
		{Name: "bandwidth-g2-to-g1-gbps", Key: "bandwidth_g2_to_g1_gbps", kind: "number", preset: "14", help: "`GB/s` from the host; 0: transfers take no time"},
		{Name: "startup-time", Key: "startup_time", kind: "number", preset: "0", help: "`seconds` until a worker that --scale adds serves"},
		{Name: "schedule-policy", Key: "sglang.schedule_policy", kind: "name", preset: "fifo", Names: sglang.PolicyNames(), engine: "sglang", help: "sglang: order of the queue: fifo, lpm, lof, hrrn, shortest-prefill-first or random, by `name`"},
		{Name: "max-prefill-tokens", Key: "sglang.max_prefill_tokens", kind: "int", preset: "16384", engine: "sglang", help: "sglang: prompt `tokens` per pass"},
		{Name: "chunked-prefill-size", Key: "sglang.chunked_prefill_size", kind: "int", preset: "8192", engine: "sglang", help: "sglang: prompt `tokens` of one request per pass"},
		{Name: "clip-max-new-tokens", Key: "sglang.clip_max_new_tokens", kind: "int", preset: "4096", engine: "sglang", help: "sglang: answer `tokens` reserved at most"},
		{Name: "schedule-conservativeness", Key: "sglang.schedule_conservativeness", kind: "number", preset: "1", engine: "sglang", help: "sglang: `factor` on the memory reserved for answers"},
		{Name: "context-length", Key: "sglang.context_length", kind: "int", preset: "the model's", engine: "sglang", cluster: true, help: "sglang: another name of --max-model-len, in `tokens`"},
		{Name: "max-running-requests", Key: "sglang.max_running_requests", kind: "limit", preset: "unlimited", engine: "sglang", help: "sglang: `requests` a worker runs at once"},
		{Name: "prefill-max-requests", Key: "sglang.prefill_max_requests", kind: "limit", preset: "unlimited", engine: "sglang", help: "sglang: `requests` of a pass that computes prompts"},
		{Name: "decode-log-interval", Key: "sglang.decode_log_interval", kind: "int", preset: "40", engine: "sglang", help: "sglang: `passes` of tokens alone of which one publishes what has happened to the KV cache"},
		{Name: "sliding-window-size", Key: "sglang.sliding_window_size", kind: "limit", preset: "none; with --gpu the model's", engine: "sglang", help: "sglang: `tokens` that the layers with a window attend to, which have a pool of their own"},
		{Name: "swa-full-tokens-ratio", Key: "sglang.swa_full_tokens_ratio", kind: "number", preset: "0.8", engine: "sglang", help: "sglang: what the pool of layers with a window has of the other's tokens, a `share`"},
		{Name: "disable-hybrid-swa-memory", Key: "sglang.disable_hybrid_swa_memory", kind: "bool", preset: "false", engine: "sglang", help: "sglang: layers with a window keep all tokens, in one pool with the others"},
		{Name: "overlap", Key: "sglang.overlap", kind: "bool", preset: "true", engine: "sglang", help: "sglang: plan a pass while the one before it runs; =false turns it off"},
		{Name: "enable-mixed-chunk", Key: "sglang.enable_mixed_chunk", kind: "bool", preset: "false", engine: "sglang", help: "sglang: running requests decode in the passes that compute prompts"},
		{Name: "speculative-algorithm", Key: "sglang.speculative_algorithm", kind: "name", preset: "no drafts", Names: sglang.Algorithms(), engine: "sglang", help: "sglang: speculative decoding with drafts by `name`: EAGLE, EAGLE3, NEXTN, FROZEN_KV_MTP, STANDALONE or NGRAM"},
		{Name: "speculative-num-steps", Key: "sglang.speculative_num_steps", kind: "int", preset: "3", engine: "sglang", help: "sglang: `drafts` in a row"},
		{Name: "speculative-eagle-topk", Key: "sglang.speculative_eagle_topk", kind: "int", preset: "1", engine: "sglang", help: "sglang: `drafts` that each step goes on with"},
		{Name: "speculative-num-draft-tokens", Key: "sglang.speculative_num_draft_tokens", kind: "int", preset: "one more than steps", engine: "sglang", help: "sglang: number `n` of tokens that a pass verifies of a request"},
		{Name: "enable-priority-scheduling", Key: "sglang.enable_priority_scheduling", kind: "bool", preset: "false", engine: "sglang", help: "sglang: requests of higher priority first, who preempt running ones"},
		{Name: "schedule-low-priority-values-first", Key: "sglang.schedule_low_priority_values_first", kind: "bool", preset: "false", engine: "sglang", help: "sglang: the lowest priority values are the most urgent"},
		{Name: "priority-scheduling-preemption-threshold", Key: "sglang.priority_scheduling_preemption_threshold", kind: "int", preset: "10", engine: "sglang", help: "sglang: preempt a running request if priorities differ by more than `N`"},
		{Name: "disable-priority-preemption", Key: "sglang.disable_priority_preemption", kind: "bool", preset: "false", engine: "sglang", help: "sglang: no running request is preempted for one of higher priority"},
		{Name: "prefill-decode-interval", Key: "sglang.prefill_decode_interval", kind: "int", preset: "0", engine: "sglang", help: "sglang: `passes` of tokens after one of prompts before the next of these"},
		{Name: "prefill-decode-interval-min-bs", Key: "sglang.prefill_decode_interval_min_bs", kind: "int", preset: "0", engine: "sglang", help: "sglang: running `requests` below which prompts do not wait for them"},
		{Name: "retraction-policy", Key: "sglang.retraction_policy", kind: "name", preset: "length", Names: []string{"length", "priority"}, engine: "sglang", help: "sglang: who loses their place where memory is short, by `name`: length, those with the fewest tokens, or priority"},
		{Name: "ignore-eos", Key: "sglang.ignore_eos", kind: "bool", preset: "false", engine: "sglang", help: "sglang: requests ignore the end of sequence, as benchmarks send them: all of their answers is reserved"},
	}...), append(append(cacheSettings(), storageSettings()...), clusterSettings()...)...)
}

// cacheSettings returns the flags of the cache of SGLang engines, and of host memory behind it.
func cacheSettings() []Setting {
	return []Setting{
		{Name: "radix-eviction-policy", Key: "sglang.radix_eviction_policy", kind: "name", preset: "lru", Names: sglang.Evictions(), engine: "sglang", help: "sglang: what leaves its cache first, by `name`"},
		{Name: "radix-eviction-policy-config", Key: "sglang.radix_eviction_policy_config", kind: "object", preset: "none", engine: "sglang", help: "sglang: parameters of that policy, a `JSON` object"},
		{Name: "enable-hierarchical-cache", Key: "sglang.enable_hierarchical_cache", kind: "bool", preset: "false", engine: "sglang", help: "sglang: host memory behind the KV cache (HiCache)"},
		{Name: "hicache-ratio", Key: "sglang.hicache_ratio", kind: "number", preset: "2", engine: "sglang", help: "sglang: host memory, as `factor` of the KV cache"},
		{Name: "hicache-size", Key: "sglang.hicache_size", kind: "number", preset: "by --hicache-ratio", engine: "sglang", help: "sglang: host memory in `GB`"},
		{Name: "hicache-write-policy", Key: "sglang.hicache_write_policy", kind: "name", preset: "write_through", Names: sglang.WritePolicies(), engine: "sglang", help: "sglang: when pages are copied to the host: write_through, write_through_selective or write_back, by `name`"},
		{Name: "hicache-layers", Key: "sglang.hicache_layers", kind: "int", preset: "the model's, or 32", engine: "sglang", help: "sglang: `layers` of the model, in which what is loaded from the host arrives"},
	}
}

// clusterSettings returns the flags of SGLang engines of several ranks, or of several roles.
func clusterSettings() []Setting {
	return []Setting{
		{Name: "attn-dp-size", Key: "dp_size", kind: "int", preset: "1", engine: "sglang", help: "sglang: `ranks` of a worker over which attention is data parallel, in lockstep; --dp with --gpu"},
		{Name: "load-balance-method", Key: "sglang.load_balance_method", kind: "name", preset: "auto", Names: sglang.Balances(), engine: "sglang", help: "sglang: how requests are spread over the ranks of a worker, by `name`; auto: in turn, to prefill workers by their bootstrap room"},
		{Name: "num-reserved-decode-tokens", Key: "sglang.num_reserved_decode_tokens", kind: "int", preset: "512", engine: "sglang", help: "sglang: `N` tokens that decode workers keep free for each request"},
	}
}

// poolNames are what the flags of one pool begin with.
func poolNames() [2]string { return [2]string{"prefill", "decode"} }

func (e *engine) bindFlags(fs *pflag.FlagSet) {
	e.Settings = EngineSettings()
	for i := range e.Settings {
		e.Settings[i].Bind(fs)
	}
	for i, pool := range poolNames() {
		e.Own[i] = poolSettings(fs, pool)
		for j := range e.Own[i] {
			s := &e.Own[i][j]
			s.Bind(fs)
			fs.Lookup(s.Name).Hidden = true
		}
	}
}

// poolSettings are the settings that a pool may have to itself. There is none for
// the speedup of the decode pool, which --decode-speedup-ratio is already: that
// pool does nothing but decode.
func poolSettings(fs *pflag.FlagSet, pool string) []Setting {
	var own []Setting
	for _, s := range EngineSettings() {
		s.Name = pool + "-" + s.Name
		if !s.cluster && fs.Lookup(s.Name) == nil {
			own = append(own, s)
		}
	}
	return own
}

// settingValues are the given settings as engine arguments.
func settingValues(settings []Setting) []engineargs.Setting {
	var all []engineargs.Setting
	for _, s := range GivenOf(settings) {
		if strings.HasPrefix(s.Key, hardwarePrefix) {
			continue
		}
		all = append(all, engineargs.Setting{Key: s.Key, Value: *s.text})
		if s.Key == "block_size" { // what SGLang may call by another name
			all = append(all, engineargs.Setting{Key: "sglang.page_size", Value: *s.text})
		}
	}
	return all
}
