package engineargs

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

func TestEmptyTextAndEmptyObjectAreTheDefaults(t *testing.T) {
	for _, text := range []string{"", "{}", " {\n} "} {
		got, err := Parse([]byte(text), Options{})
		if err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%q: %+v, %v; want the defaults", text, got, err)
		}
	}
}

// TestEveryKey checks that every key changes its field and no other field.
func TestEveryKey(t *testing.T) {
	set := func(change func(*Args)) Args { a := Default(); change(&a); return a }
	cases := []struct {
		key, value string
		want       Args
	}{
		{"engine_type", `"sglang"`, set(func(a *Args) { a.Engine, a.BlockTokens = SGLang, 1 })},
		{"num_gpu_blocks", `7`, set(func(a *Args) { a.Blocks = 7 })},
		{"block_size", `128`, set(func(a *Args) { a.BlockTokens = 128 })},
		{"max_num_seqs", `null`, set(func(a *Args) { a.MaxSeqs = Unlimited })},
		{"max_num_batched_tokens", `5`, set(func(a *Args) { a.MaxBatchedTokens = 5 })},
		{"enable_prefix_caching", `false`, set(func(a *Args) { a.PrefixCaching = false })},
		{"enable_chunked_prefill", `false`, set(func(a *Args) { a.ChunkedPrefill = false })},
		{"speedup_ratio", `2`, set(func(a *Args) { a.Speedup = 2 })},
		{"decode_speedup_ratio", `0.0`, set(func(a *Args) { a.DecodeSpeedup = 0 })},
		{"dp_size", `2`, set(func(a *Args) { a.DPSize = 2 })},
		{"startup_time", `1.5e1`, set(func(a *Args) { a.StartupSeconds = 15 })},
		{"worker_type", `"prefill"`, set(func(a *Args) { a.Role = scheduler.Prefill })},
		{"is_prefill", `true`, set(func(a *Args) { a.Role = scheduler.Prefill })},
		{"is_decode", `true`, set(func(a *Args) { a.Role = scheduler.Decode })},
		{"planner_profile_data", `"p.npz"`, set(func(a *Args) { a.PassTimes = timing.ParseSource("p.npz") })},
		{"aic_backend", `"b"`, set(func(a *Args) { a.AIC.Backend = "b" })},
		{"aic_system", `"s"`, set(func(a *Args) { a.AIC.System = "s" })},
		{"aic_backend_version", `"v"`, set(func(a *Args) { a.AIC.BackendVersion = "v" })},
		{"aic_model_path", `"m"`, set(func(a *Args) { a.AIC.ModelPath = "m" })},
		{"aic_tp_size", `1`, set(func(a *Args) { a.AIC.TPSize = 1 })},
		{"aic_moe_tp_size", `2`, set(func(a *Args) { a.AIC.MoETPSize = 2 })},
		{"aic_moe_ep_size", `3`, set(func(a *Args) { a.AIC.MoEEPSize = 3 })},
		{"aic_attention_dp_size", `4`, set(func(a *Args) { a.AIC.AttentionSize = 4 })},
		{"kv_bytes_per_token", `1000`, set(func(a *Args) { a.KVBytesPerToken = 1000 })},
		{"kv_transfer_bandwidth", `64.5`, set(func(a *Args) { a.TransferGBPerSecond = 64.5 })},
		{"scheduling_policy", `"fcfs"`, set(func(*Args) {})},
		{"max_num_active_seqs", `2`, set(func(a *Args) { a.ActiveSeqs = 2 })},
		{"max_model_len", `4096`, set(func(a *Args) { a.MaxLength = 4096 })},
		{"prefill_schedule_interval", `1`, set(func(a *Args) { a.PrefillInterval = 1 })},
		{"sliding_window", `null`, set(func(*Args) {})},
		{"attention_chunk_size", `null`, set(func(*Args) {})},
		{"layer_types", `["full_attention"]`, set(func(*Args) {})},
		{"disable_hybrid_kv_cache_manager", `true`, set(func(a *Args) { a.NoHybrid = true })},
		{"speculative_config", `null`, set(func(*Args) {})},
		{"kv_transfer_latency_ms", `1.5`, set(func(a *Args) { a.TransferLatencyMs = 1.5 })},
		{"warmup", `null`, set(func(*Args) {})},
		{"preemption_mode", `"fifo"`, set(func(a *Args) { a.Preemption = vllm.FIFO })},
		{"router_queue_policy", `"wspt"`, set(func(a *Args) { a.QueuePolicy = "wspt" })},
		{"num_g2_blocks", `9`, set(func(a *Args) { a.G2.Blocks = 9 })},
		{"kv_offload_gib", `1`, set(func(a *Args) { a.G2.GiB = 1 })},
		{"kv_offload_connector", `"offloading"`, set(func(*Args) {})},
		{"offload_batch_size", `8`, set(func(a *Args) { a.G2.BatchBlocks = 8 })},
		{"bandwidth_g1_to_g2_gbps", `1`, set(func(a *Args) { a.G2.ToHostGBPerSec = 1 })},
		{"bandwidth_g2_to_g1_gbps", `2`, set(func(a *Args) { a.G2.ToGPUGBPerSec = 2 })},
		{"bandwidth_g2_to_g3_gbps", `2`, set(func(a *Args) { a.G2.ToStorageGBPerSec = 2 })},
		{"bandwidth_g3_to_g2_gbps", `2`, set(func(a *Args) { a.G2.FromStorageGBPerSec = 2 })},
		{"enable_local_indexer", `true`, set(func(a *Args) { a.LocalIndexer = true })},
		{"bootstrap_port", `80`, set(func(a *Args) { a.BootstrapPort = 80 })},
		{"zmq_kv_events_port", `81`, set(func(a *Args) { a.KVEventsPort = 81 })},
		{"zmq_replay_port", `82`, set(func(a *Args) { a.ReplayPort = 82 })},
		{"reasoning", `{"start_thinking_token_id":1,"end_thinking_token_id":2,"thinking_ratio":0.5}`,
			set(func(a *Args) { a.Reasoning = &Reasoning{1, 2, 0.5} })},
		{"sglang", `{"schedule_policy":"lpm","max_prefill_tokens":10,"chunked_prefill_size":64,"clip_max_new_tokens":0,"schedule_conservativeness":2,"max_running_requests":7,"prefill_max_requests":3,"decode_log_interval":9,"overlap":false,"ignore_eos":true,"enable_mixed_chunk":true,"load_balance_method":"total_tokens","num_reserved_decode_tokens":9,"prefill_decode_interval":4,"prefill_decode_interval_min_bs":5,"priority_scheduling_preemption_threshold":3,"schedule_low_priority_values_first":true,"sliding_window_size":128,"swa_full_tokens_ratio":0.5,"disable_hybrid_swa_memory":true,"enable_hierarchical_cache":true,"hicache_ratio":0.5,"hicache_size":40,"hicache_write_policy":"write_back","hicache_layers":61,"hicache_storage_backend":null}`,
			set(func(a *Args) {
				a.SGLang = SGLangArgs{Policy: "lpm", MaxPrefillTokens: 10, ChunkTokens: 64, Conservativeness: 2, MaxRunning: 7, PrefillRequests: 3, LogInterval: 9, NoOverlap: true, IgnoreEOS: true, MixedChunk: true, LoadBalance: "total_tokens", ReservedDecode: 9, DecodeInterval: 4, IntervalSeats: 5, Priorities: sglang.Priorities{LowFirst: true, Threshold: 3}, ChunkGiven: true,
					Window: 128, WindowShare: 0.5, NoWindowPool: true,
					HiCache: HiCacheArgs{On: true, Ratio: 0.5, SizeGB: 40, Policy: "write_back", Layers: 61}}
			})},
		{"sglang", `{"radix_eviction_policy":"slru","radix_eviction_policy_config":{"protected_threshold":4}}`,
			set(func(a *Args) { a.SGLang.Eviction = sglang.Eviction{Policy: 2, ProtectedHits: 4} })},
		{"trtllm", `null`, Default()},
		{"has_perf_model", `[{}]`, Default()},
		{"scheduler_profile", `"vllm-0.19"`, set(func(a *Args) { a.Rules, a.Profile = releases.Rules019(), "vllm-0.19" })},
		{"scheduler_rules", `{"null_block":true,"long_prefill_tokens":9}`, set(func(a *Args) { a.Rules.NullBlock, a.Rules.LongPrefillTokens = true, 9 })},
	}
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.key] = true
		got, err := Parse([]byte(`{"`+c.key+`":`+c.value+`}`), Options{})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s = %s: got %+v, %v\nwant %+v", c.key, c.value, got, err, c.want)
		}
	}
	for _, key := range Keys() {
		if !seen[key] {
			t.Errorf("no case for %s", key)
		}
	}
	if !slices.IsSorted(Keys()) {
		t.Error("Keys is not sorted")
	}
}

func TestRefused(t *testing.T) {
	cases := []struct{ text, want string }{
		{`[1]`, `must be a JSON object, got [1]`},
		{`5 6`, `must be a JSON object, got 5 6`},
		{`{"block_size":1`, `byte 15: the JSON object ends too early`},
		{`{} x`, `after the JSON object`},
		{`{"engine_type":"sglang","sglang":{"max_running_requests":0}}`, `sglang.max_running_requests is 0`},
		{`{"engine_type":"sglang","sglang":{"enable_priority_scheduling":true,"schedule_policy":"lpm"}}`, `sglang.enable_priority_scheduling is true, requires schedule_policy fcfs or lof`},
		{`{"engine_type":"sglang","sglang":{"retraction_policy":"priority"}}`, `sglang.retraction_policy is "priority", requires enable_priority_scheduling`},
		{`{"engine_type":"sglang","sglang":{"radix_eviction_policy":"tlru","radix_eviction_policy_config":{"threshold":5,"next_prompt_estimate":5}}}`, `sglang.radix_eviction_policy is "tlru", requires radix_eviction_policy_config with a threshold above`},
		{`{"engine_type":"sglang","sglang":{"radix_eviction_policy_config":{"threshold":5}}}`, `requires radix_eviction_policy slru or tlru`},
		{`{"engine_type":"sglang","sglang":{"radix_eviction_policy":"tlru","radix_eviction_policy_config":{"treshold":5}}}`, `sglang.radix_eviction_policy_config.treshold is 5, must be one of threshold, next_prompt_estimate`},
		{`{"engine_type":"sglang","sglang":{"priority_scheduling_preemption_threshold":-1}}`, `sglang.priority_scheduling_preemption_threshold is -1, must be an integer from 0`},
		{`{"engine_type":"sglang","sglang":{"hicache_ratio":0}}`, `sglang.hicache_ratio is 0, must be above 0`},
		{`{"engine_type":"sglang","sglang":{"hicache_write_policy":"through"}}`, `sglang.hicache_write_policy is "through"`},
		{`{"engine_type":"sglang","sglang":{"hicache_storage_backend":"file"}}`, `hicache_storage_prefetch_retry_max_attempts is 8, must be 0`},
		{`{"engine_type":"sglang","sglang":{"hicache_storage_backend":"file","hicache_storage_prefetch_retry_max_attempts":0}}`, `sglang.hicache_storage_backend is "file"`},
		{`{"engine_type":"sglang","sglang":{"hicache_storage_prefetch_policy":"timeout"}}`, `requires hicache_storage_backend`},
		{`{"scheduler_profile":"vllm-0.19","engine_type":"sglang"}`, `scheduler_profile is "vllm-0.19"`},
		{`{"scheduler_rules":{"null":true}}`, `scheduler_rules.null is true, must be one of long_prefill_tokens, empty_pass_ms`},
		{`{"block_size":}`, `not JSON`},
		{`{"b":1,"a":2}`, `unknown keys: a, b; the keys are aic_`},
		{`{"worker_type":5}`, `worker_type is 5, must be "aggregated", "prefill" or "decode"`},
		{`{"worker_type":"x"}`, `worker_type is "x", must be`},
		{`{"worker_type":"decode","is_prefill":null}`, `is_prefill is null, not supported with worker_type`},
		{`{"is_prefill":true,"is_decode":true}`, `is_decode is true, must be not both`},
		{`{"engine_type":"VLLM"}`, `engine_type is "VLLM", must be "vllm", "sglang" or "trtllm"`},
		{`{"scheduling_policy":"priority"}`, `scheduling_policy is "priority", requires vLLM's own rules: scheduler_profile vllm`},
		{`{"prefill_schedule_interval":2}`, `prefill_schedule_interval is 2, requires vLLM's own rules: scheduler_profile vllm`},
		{`{"warmup":{"time":5,"requests":8}}`, `warmup is {"time":5,"requests":8}, requires vLLM's own rules: scheduler_profile vllm`},
		{`{"warmup":{"time":5},"engine_type":"sglang"}`, `requires engine_type vllm`},
		{`{"warmup":{"requests":8}}`, `warmup.time is missing, must be s above 0`},
		{`{"warmup":{"time":5,"requests":0}}`, `warmup.requests is 0, must be at least 1`},
		{`{"warmup":{"time":5,"passes":2}}`, `warmup.passes is 2, must be one of time, requests`},
		{`{"sliding_window":128}`, `sliding_window is 128, requires vLLM's own rules: scheduler_profile vllm`},
		{`{"sliding_window":128,"attention_chunk_size":64}`, `attention_chunk_size is 64, not supported with sliding_window`},
		{`{"sliding_window":128,"layer_types":["full"]}`, `layer_types is "full", must be "sliding_attention" or "full_attention" with the window that is given`},
		{`{"layer_types":["sliding_attention"]}`, `sliding_window is missing, must be the tokens of the windows that layer_types has`},
		{`{"sliding_window":128,"layer_types":5}`, `layer_types is 5, must be a list of names`},
		{`{"speculative_config":{"num_speculative_tokens":2,"acceptance_rate":0.5}}`, `requires vLLM's own rules: scheduler_profile vllm`},
		{`{"speculative_config":{"method":"eagle4"}}`, `speculative_config.method is "eagle4", must be "eagle", "eagle3", "mtp"`},
		{`{"speculative_config":{"acceptance_rate":1}}`, `speculative_config.num_speculative_tokens is missing, must be the number of drafts`},
		{`{"speculative_config":{"num_speculative_tokens":100}}`, `num_speculative_tokens is 100, must be at most 64`},
		{`{"speculative_config":{"num_speculative_tokens":2}}`, `speculative_config.acceptance_rate is missing, must be how many drafts are accepted`},
		{`{"speculative_config":{"num_speculative_tokens":2,"acceptance_rate":1.5}}`, `acceptance_rate is 1.5, must be a number from 0 to 1`},
		{`{"speculative_config":{"num_speculative_tokens":2,"acceptance_rate":[0.9,0.1]}}`, `acceptance_rate is [0.9,0.1], must be a number`},
		{`{"speculative_config":{"num_speculative_tokens":2,"synthetic_acceptance_rates":[0.5]}}`, `must be a list of 2 numbers from 0 to 1, none greater`},
		{`{"speculative_config":{"num_speculative_tokens":2,"synthetic_acceptance_rates":[0.5,0.6]}}`, `must be a list of 2 numbers from 0 to 1, none greater`},
		{`{"speculative_config":{"num_speculative_tokens":2,"synthetic_acceptance_length":4}}`, `synthetic_acceptance_length is 4, must be a number from 1 to 3`},
		{`{"speculative_config":{"num_speculative_tokens":2,"synthetic_acceptance_length":2,"acceptance_rate":1}}`, `acceptance_rate is 1, not supported with synthetic_acceptance_length`},
		{`{"speculative_config":{"num_speculative_tokens":2,"acceptance_rate":1,"acceptance":1}}`, `speculative_config.acceptance is 1, must be one of`},
		{`{"speculative_config":{"method":"ngram","num_speculative_tokens":2,"acceptance_rate":1},"scheduler_profile":"vllm-0.24","scheduler_rules":{"two_in_flight":true}}`, `scheduler_rules.two_in_flight is true, must be false with method ngram`},
		{`{"speculative_config":{"num_speculative_tokens":2,"acceptance_rate":1},"engine_type":"sglang"}`, `requires sglang.speculative_algorithm`},
		{`{"scheduler_rules":{"watermark":1}}`, `scheduler_rules.watermark is 1, must be less than 1`},
		{`{"preemption_mode":"FIFO"}`, `preemption_mode is "FIFO", must be "lifo" or "fifo"`},
		{`{"router_queue_policy":"x"}`, `must be "fcfs", "lcfs", "wspt", "priority", "wfq" or "edf"`},
		{`{"num_gpu_blocks":0}`, `num_gpu_blocks is 0, must be at least 1`},
		{`{"num_gpu_blocks":-0}`, `num_gpu_blocks is 0, must be at least 1`},
		{`{"num_gpu_blocks":10000000000000}`, `num_gpu_blocks is 10000000000000, must be at most 2147483647`},
		{`{"max_num_seqs":0}`, `max_num_seqs is 0, must be at least 1`},
		{`{"max_num_batched_tokens":0}`, `must be at least 1`},
		{`{"dp_size":0}`, `must be at least 1`},
		{`{"num_g2_blocks":0}`, `must be at least 1`},
		{`{"kv_offload_gib":-1}`, `must be at least 0`},
		{`{"kv_offload_gib":1,"num_g2_blocks":5}`, `kv_offload_gib is 1, must be none with num_g2_blocks`},
		{`{"kv_offload_gib":1e-6,"kv_bytes_per_token":1000}`, `kv_offload_gib is 1e-06, must be room for 1 to 2147483647 blocks of 64 tokens of 1000 bytes`},
		{`{"kv_offload_gib":1e300,"kv_bytes_per_token":1}`, `must be room for`},
		{`{"kv_offload_gib":1,"engine_type":"sglang"}`, `use sglang.enable_hierarchical_cache and sglang.hicache_size`},
		{`{"engine_type":"trtllm","kv_offload_gib":8}`, `trtllm.host_cache_size instead of it`},
		{`{"kv_offload_connector":"lmcache"}`, `kv_offload_connector is "lmcache", must be "offloading" or "simple"`},
		{`{"kv_offload_connector":"simple"}`, `kv_offload_connector is "simple", requires a scheduler_profile of vLLM`},
		{`{"engine_type":"sglang","kv_offload_connector":"simple"}`, `kv_offload_connector is "simple", requires engine_type vllm`},
		{`{"engine_type":"trtllm","kv_offload_connector":"simple"}`, `kv_offload_connector is "simple", must be none with trtllm`},
		{`{"offload_batch_size":0}`, `must be at least 1`},
		{`{"speedup_ratio":-1}`, `speedup_ratio is -1, must be at least 0`},
		{`{"decode_speedup_ratio":-0.5}`, `must be at least 0`},
		{`{"startup_time":-1}`, `must be at least 0`},
		{`{"kv_transfer_bandwidth":-1}`, `must be at least 0`},
		{`{"bandwidth_g1_to_g2_gbps":-1}`, `must be at least 0`},
		{`{"bandwidth_g2_to_g1_gbps":-1}`, `must be at least 0`},
		{`{"speedup_ratio":1e400}`, `speedup_ratio is 1e400, must be a number that a float64 can hold`},
		{`{"reasoning":5}`, `reasoning is 5, must be an object or null`},
		{`{"reasoning":{}}`, `reasoning.start_thinking_token_id is missing, must be a number`},
		{`{"engine_type":"trtllm","max_num_seqs":8}`, `trtllm.max_batch_size instead of it`},
		{`{"engine_type":"trtllm","num_g2_blocks":8}`, `trtllm.host_cache_size instead of it`},
		{`{"engine_type":"trtllm","trtllm":{"capacity_scheduler_policy":"MAX_REQUESTS"}}`, `trtllm.capacity_scheduler_policy is "MAX_REQUESTS"`},
		{`{"engine_type":"trtllm","enable_prefix_caching":false,"trtllm":{"host_cache_size":1000}}`, `trtllm.host_cache_size is 1000`},
		{`{"engine_type":"trtllm","trtllm":{"decode_retention_priority":101}}`, `trtllm.decode_retention_priority is 101, `},
		{`{"engine_type":"trtllm","enable_prefix_caching":false,"trtllm":{"decode_retention_priority":40}}`, `priorit`},
		{`{"engine_type":"trtllm","trtllm":{"token_range_retention":"5-2:10"}}`, `range "5-2:10" to end behind its first token`},
		{`{"engine_type":"trtllm","trtllm":{"token_range_retention":"0-8:10,4-9:10"}}`, `range "4-9:10" to begin behind the range before it`},
		{`{"engine_type":"trtllm","trtllm":{"token_range_retention":"0-8:101"}}`, `priority 101 of range "0-8:101" to be 0 to 100`},
		{`{"engine_type":"trtllm","trtllm":{"token_range_retention":"0-8"}}`, `FIRST-END:PRIORITY`},
		{`{"engine_type":"trtllm","trtllm":{"waiting_queue_policy":"lifo"}}`, `trtllm.waiting_queue_policy is "lifo"`},
		{`{"engine_type":"trtllm","trtllm":{"event_buffer_max_size":-1}}`, `trtllm.event_buffer_max_size is -1`},
		{`{"sglang":[1]}`, `sglang is [1], must be an object or null`},
		{`{"sglang":{"page_size":64.0}}`, `sglang.page_size is 64.0, must be an integer`},
		{`{"sglang":{"schedule_policy":1}}`, `sglang.schedule_policy is 1, must be a string`},
		{`{"engine_type":"sglang","block_size":4,"sglang":{"page_size":8}}`, `sglang.page_size is 8, must be block_size, which is 4`},
		{`{"engine_type":"sglang","block_size":4,"sglang":{"chunked_prefill_size":6}}`, `a multiple of block_size, which is 4`},
		{`{"engine_type":"sglang","sglang":{"page_size":0}}`, `sglang.page_size is 0, must be at least 1`},
		{`{"engine_type":"sglang","sglang":{"chunked_prefill_size":0}}`, `sglang.chunked_prefill_size is 0, must be at least`},
		{`{"engine_type":"sglang","sglang":{"max_prefill_tokens":0}}`, `sglang.max_prefill_tokens is 0, must be at least 1`},
		{`{"engine_type":"sglang","block_size":10000}`, `sglang.chunked_prefill_size is 8192, must be at least block_size, which is 10000`},
		{`{"engine_type":"sglang","sglang":{"speculative_algorithm":"MEDUSA"}}`, `speculative_algorithm is "MEDUSA", must be`},
		{`{"sglang":{"speculative_num_steps":2}}`, `requires speculative_algorithm`},
		{`{"sglang":{"speculative_algorithm":"EAGLE","speculative_eagle_topk":2}}`, `requires speculative_num_steps`},
		{`{"sglang":{"speculative_algorithm":"EAGLE","speculative_num_steps":2}}`, `must be given with speculative_num_steps`},
		{`{"sglang":{"speculative_algorithm":"EAGLE","speculative_num_steps":2,"speculative_eagle_topk":4}}`, `must be given with`},
		{`{"sglang":{"speculative_algorithm":"NGRAM","speculative_num_draft_tokens":1}}`, `must be at least 2`},
		{`{"sglang":{"speculative_algorithm":"NGRAM","speculative_ngram_max_bfs_breadth":0}}`, `must be at least 1`},
		{`{"sglang":{"speculative_algorithm":"NGRAM","speculative_ngram_max_bfs_breadth":-1}}`, `speculative_ngram_max_bfs_breadth`},
		{`{"sglang":{"speculative_algorithm":"NGRAM","speculative_num_steps":0}}`, `must be at least 1`},
		{`{"sglang":{"speculative_algorithm":"NGRAM","speculative_num_draft_tokens":0}}`, `must be at least 1`},
		{`{"sglang":{"speculative_algorithm":"EAGLE","speculative_num_steps":0}}`, `must be at least 1`},
		{`{"sglang":{"speculative_algorithm":"EAGLE","speculative_num_steps":-2}}`, `speculative_num_steps`},
		{`{"sglang":{"speculative_algorithm":"EAGLE","speculative_num_steps":2,"speculative_eagle_topk":0}}`, `must be at least 1`},
		{`{"sglang":{"speculative_algorithm":"STANDALONE","speculative_num_steps":2,"speculative_eagle_topk":2,"speculative_num_draft_tokens":0}}`, `must be at least 1`},
		{`{"sglang":{"speculative_algorithm":"NGRAM","speculative_num_draft_tokens":65}}`, `must be at most 64`},
		{`{"planner_profile_data":5}`, `planner_profile_data is 5, must be a string`},
	}
	for _, c := range cases {
		for _, compat := range []bool{false, true} {
			_, err := Parse([]byte(c.text), Options{Compat: compat})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s (compat %v): %v, want %s", c.text, compat, err, c.want)
			}
		}
	}
}

// TestWrongTypes checks that values of the wrong type are rejected, or ignored if the reference ignores them.
func TestWrongTypes(t *testing.T) {
	cases := []struct{ text, want string }{
		{`{"block_size":"16"}`, `block_size is "16", must be an integer`},
		{`{"block_size":16.0}`, `block_size is 16.0, must be an integer`},
		{`{"block_size":1e3}`, `block_size is 1e3, must be an integer`},
		{`{"block_size":-1}`, `block_size is -1, must be an integer`},
		{`{"block_size":null}`, `block_size is null, must be an integer`},
		{`{"num_gpu_blocks":18446744073709551616}`, `num_gpu_blocks is 18446744073709551616, must be an integer`},
		{`{"enable_prefix_caching":"false"}`, `enable_prefix_caching is "false", must be true or false`},
		{`{"enable_prefix_caching":0}`, `must be true or false`},
		{`{"speedup_ratio":"2"}`, `speedup_ratio is "2", must be a number`},
		{`{"preemption_mode":null}`, `preemption_mode is null, must be "lifo" or "fifo"`},
		{`{"engine_type":7}`, `engine_type is 7, must be "vllm", "sglang" or "trtllm"`},
		{`{"is_prefill":null}`, `is_prefill is null, must be true or false`},
		{`{"aic_system":5}`, `aic_system is 5, must be a string`},
		{`{"num_gpu_blocks":100,"num_gpu_blocks":"x"}`, `num_gpu_blocks is "x", must be an integer`},
	}
	for _, c := range cases {
		_, err := Parse([]byte(c.text), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
		var key *KeyError
		if !errors.As(err, &key) {
			t.Errorf("%s: %T, want a *KeyError", c.text, err)
		}
		got, err := Parse([]byte(c.text), Options{Compat: true})
		if err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%s with compat: %+v, %v; want the defaults", c.text, got, err)
		}
	}
}

func TestAccepted(t *testing.T) {
	cases := []struct {
		text  string
		holds func(Args) bool
	}{
		{`{"block_size":0}`, func(a Args) bool { return a.BlockTokens == 64 }},
		{`{"num_gpu_blocks":5,"num_gpu_blocks":6}`, func(a Args) bool { return a.Blocks == 6 }},
		{`{"worker_type":null,"is_decode":true}`, func(a Args) bool { return a.Role == scheduler.Decode }},
		{`{"worker_type":"aggregated"}`, func(a Args) bool { return a.Role == scheduler.Aggregated }},
		{`{"max_num_seqs":18446744073709551615}`, func(a Args) bool { return a.MaxSeqs == 1<<62 }},
		{`{"planner_profile_data":null,"sglang":null,"reasoning":null}`, func(a Args) bool { return a.PassTimes.Form() == timing.BuiltIn && a.Reasoning == nil }},
		{`{"engine_type":"sglang","sglang":{"page_size":16,"other":{}}}`, func(a Args) bool { return a.BlockTokens == 16 }},
		{`{"engine_type":"sglang","block_size":16,"sglang":{"page_size":0}}`, func(a Args) bool { return a.BlockTokens == 16 }},
		{`{"engine_type":"sglang","block_size":48,"sglang":{"chunked_prefill_size":null}}`, func(a Args) bool { return a.BlockTokens == 48 && a.SGLang.ChunkTokens == 8192 }},
		{`{"engine_type":"sglang","sglang":{"clip_max_new_tokens":0,"schedule_conservativeness":2}}`, func(a Args) bool { return a.SGLang.ClipNewTokens == 0 }},
	}
	for _, c := range cases {
		for _, compat := range []bool{false, true} {
			a, err := Parse([]byte(c.text), Options{Compat: compat})
			if err != nil || !c.holds(a) {
				t.Errorf("%s (compat %v): %+v, %v", c.text, compat, a, err)
			}
		}
	}
}

func TestCompatCutsNumbersToTheirFields(t *testing.T) {
	text := []byte(`{"bootstrap_port":70000,"dp_size":4294967297}`)
	a, err := Parse(text, Options{Compat: true})
	if err != nil || a.BootstrapPort != 4464 || a.DPSize != 1 {
		t.Errorf("port %d, dp_size %d, %v; want 4464, 1", a.BootstrapPort, a.DPSize, err)
	}
	if _, err := Parse(text, Options{}); err == nil || !strings.Contains(err.Error(), "bootstrap_port is 70000, must be at most 65535") {
		t.Errorf("without compat: %v", err)
	}
}

func TestSettingsWin(t *testing.T) {
	set := []Setting{{Key: "block_size", Value: "32"}, {Key: "sglang.schedule_policy", Value: `"lpm"`}}
	text := `{"engine_type":"sglang","block_size":16,"sglang":{"max_prefill_tokens":99}}`
	a, err := Parse([]byte(text), Options{Set: set})
	if err != nil || a.BlockTokens != 32 || !a.SGLang.LPM() || a.SGLang.MaxPrefillTokens != 99 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = Parse(nil, Options{Set: set[1:]}); err != nil || !a.SGLang.LPM() {
		t.Errorf("without an object: %+v, %v", a, err)
	}
}

// TestPool checks that arguments without a role get the role of the pool.
func TestPool(t *testing.T) {
	for text, want := range map[string]scheduler.Role{
		``: scheduler.Decode, `{"worker_type":null}`: scheduler.Decode, `{"is_prefill":false}`: scheduler.Decode,
		`{"worker_type":"aggregated"}`: scheduler.Aggregated, `{"is_prefill":true}`: scheduler.Prefill,
	} {
		if a, err := Parse([]byte(text), Options{Pool: scheduler.Decode}); err != nil || a.Role != want {
			t.Errorf("%s in a decode pool: %v, %v; want %v", text, a.Role, err, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	a, err := Parse([]byte(`{"engine_type":"sglang","num_g2_blocks":5,"sglang":{"schedule_policy":"sof"}}`), Options{})
	if err != nil || len(a.Warnings()) != 2 || !strings.Contains(a.Warnings()[0], `"sof"`) || !strings.Contains(a.Warnings()[1], "num_g2_blocks is 5") {
		t.Errorf("%q, %v", a.Warnings(), err)
	}
	if d := Default(); len(d.Warnings()) != 0 {
		t.Errorf("the defaults warn: %q", d.Warnings())
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "args.json")
	if err := os.WriteFile(path, []byte(`{"dp_size":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, argument := range []string{`{"dp_size":1}`, "@" + path} {
		if text, err := Load(argument); err != nil || string(text) != `{"dp_size":1}` {
			t.Errorf("Load(%q) = %q, %v", argument, text, err)
		}
	}
	if _, err := Load("@" + path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load("@" + path); err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("a large file: %v", err)
	}
}

// FuzzEngineArgs checks that Parse rejects any text or returns arguments in range.
func FuzzEngineArgs(f *testing.F) {
	for _, text := range []string{``, `{}`, `{"block_size":16,"sglang":{"page_size":16}}`, `{"speedup_ratio":1e-320}`,
		`{"engine_type":"sglang","block_size":4611686018427387904,"num_gpu_blocks":3}`, `{"worker_type":null}`, `{"a":{"b":[1,2]}}`} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, compat bool) {
		a, err := Parse(text, Options{Compat: compat})
		if err != nil {
			if !reflect.DeepEqual(a, Args{}) {
				t.Errorf("refused with %v, and gave %+v", err, a)
			}
			return
		}
		again, err := Parse(text, Options{Compat: compat})
		if err != nil || !reflect.DeepEqual(a, again) {
			t.Errorf("second reading: %+v, %v", again, err)
		}
		switch {
		case a.Blocks < 1 || a.Blocks > maxBlocks, a.BlockTokens < 1, a.DPSize < 1, a.MaxSeqs < 0, a.MaxBatchedTokens < 0:
			t.Errorf("out of range: %+v", a)
		case !(a.Speedup >= 0) || !(a.DecodeSpeedup >= 0) || !(a.StartupSeconds >= 0) || math.IsInf(a.Speedup, 0):
			t.Errorf("out of range: %+v", a)
		}
	})
}

// TestCompatRefusesSGLangsOwn checks that arguments that the reference's rules do not have are rejected.
func TestCompatRefusesSGLangsOwn(t *testing.T) {
	for _, own := range []string{`"load_balance_method":"round_robin"`, `"num_reserved_decode_tokens":3`, `"overlap":false`, `"max_running_requests":4`, `"ignore_eos":true`, `"enable_mixed_chunk":true`, `"sliding_window_size":128`, `"enable_hierarchical_cache":true`} {
		_, err := Parse([]byte(`{"engine_type":"sglang","sglang":{`+own+`}}`), Options{Compat: true})
		if err == nil || !strings.Contains(err.Error(), "no compat") {
			t.Errorf("%s: %v, want it refused", own, err)
		}
	}
}

// TestTRTLLMBalanceBeforeRanks checks that balanced ranks are accepted before the number of ranks is known.
func TestTRTLLMBalanceBeforeRanks(t *testing.T) {
	text := []byte(`{"engine_type":"trtllm","trtllm":{"enable_balance":true}}`)
	if _, err := Parse(text, Options{Incomplete: true}); err != nil {
		t.Error(err)
	}
	a, err := Parse(text, Options{Unless: []Setting{{Key: "dp_size", Value: "4"}}})
	if err != nil || a.DPSize != 4 || !a.TRTLLM.Balance.On {
		t.Errorf("%d ranks, %+v, %v", a.DPSize, a.TRTLLM.Balance, err)
	}
}

// TestTRTLLMRefused checks that arguments that TensorRT-LLM engines do not have are rejected.
func TestTRTLLMRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"trtllm":{"max_batch_size":8}}`:                             "requires engine_type trtllm",
		`{"engine_type":"trtllm","trtllm":{"enable_balance":true}}`:   "requires dp_size above 1",
		`{"engine_type":"trtllm","trtllm":{"max_num_tokens":8}}`:      "at least block_size, which is 32",
		`{"engine_type":"trtllm","scheduler_profile":"vllm-0.33"}`:    "trtllm-1.3",
		`{"engine_type":"trtllm","trtllm":{"max_batch_size":0}}`:      "at least 1",
		`{"engine_type":"trtllm","speculative_config":{"model":"x"}}`: "none with trtllm",
	} {
		if _, err := Parse([]byte(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, must contain %q", text, err, want)
		}
	}
	a, err := Parse([]byte(`{"engine_type":"trtllm"}`), Options{})
	if err != nil || a.BlockTokens != 32 || a.MaxSeqs != 2048 || a.MaxBatchedTokens != 8192 || a.Profile != "trtllm-1.3" {
		t.Errorf("defaults: %+v, %v", a, err)
	}
}

// TestOffloadSize checks that a size of host memory in GiB is rounded down to whole blocks.
func TestOffloadSize(t *testing.T) {
	for text, want := range map[string]int{
		`{"kv_offload_gib":64,"block_size":16,"kv_bytes_per_token":131072}`:     32768,
		`{"kv_offload_gib":0.0000036,"block_size":16,"kv_bytes_per_token":100}`: 2,
		`{"kv_offload_gib":64,"block_size":16}`:                                 0,
		`{"kv_offload_gib":0,"num_g2_blocks":7,"kv_bytes_per_token":131072}`:    7,
	} {
		a, err := Parse([]byte(text), Options{})
		if err != nil || a.G2.Blocks != want {
			t.Errorf("%s: %d blocks, want %d (%v)", text, a.G2.Blocks, want, err)
		}
	}
	a, _ := Parse([]byte(`{"kv_offload_gib":64}`), Options{})
	if w := a.Warnings(); len(w) != 1 || w[0] != "kv_offload_gib is 64 without kv_bytes_per_token: nothing is offloaded" {
		t.Errorf("warnings: %q", w)
	}
}

// TestSimpleConnector checks that SimpleCPUOffloadConnector is accepted with the rules of vLLM, and rejected with
// data-parallel ranks.
func TestSimpleConnector(t *testing.T) {
	a, err := Parse([]byte(`{"kv_offload_connector":"simple","scheduler_profile":"vllm"}`), Options{})
	if err != nil || a.G2.Connector != SimpleCPU {
		t.Errorf("the connector is %q: %v", a.G2.Connector, err)
	}
	a, err = Parse([]byte(`{"kv_offload_connector":"simple"}`), Options{Incomplete: true})
	if err != nil || a.G2.Connector != SimpleCPU {
		t.Errorf("without a scheduler_profile, which may follow, the connector is %q: %v", a.G2.Connector, err)
	}
	priorities := `{"kv_offload_connector":"simple","scheduling_policy":"priority","scheduler_profile":`
	if _, err = Parse([]byte(priorities+`"vllm-0.33"}`), Options{}); err != nil {
		t.Error(err)
	}
	_, err = Parse([]byte(priorities+`"vllm-0.24"}`), Options{})
	if want := "requires scheduling_policy fcfs or scheduler_profile vllm-0.33"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, must have %q", err, want)
	}
	_, err = Parse([]byte(`{"kv_offload_connector":"simple","scheduler_profile":"vllm","dp_size":2}`), Options{})
	if want := `kv_offload_connector is "simple", requires dp_size 1`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, must have %q", err, want)
	}
}
