package main

import (
	"strconv"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// engine holds a flag for each engine argument that has an effect.
type engine struct {
	settings []setting
	// own are flags for one of two pools, prefill and decode, by pool.
	own [2][]setting
}

func engineSettings() []setting {
	return []setting{
		{name: "engine", key: "engine_type", kind: "name", preset: "vllm", names: []string{"vllm", "sglang"}, help: "scheduler of the engines: vllm or sglang, by `name`"},
		{name: "num-gpu-blocks", key: "num_gpu_blocks", kind: "int", preset: "16384", help: "KV `blocks` of a worker"},
		{name: "block-size", key: "block_size", kind: "int", preset: "64 for vllm, 1 for sglang", cluster: true, help: "`tokens` per KV block"},
		{name: "page-size", key: "block_size", kind: "int", preset: "1", engine: "sglang", cluster: true, help: "sglang: another name of --block-size, in `tokens`"},
		{name: "max-num-seqs", key: "max_num_seqs", kind: "limit", preset: "256", engine: "vllm", help: "`requests` a worker runs at once, or unlimited"},
		{name: "max-num-batched-tokens", key: "max_num_batched_tokens", kind: "limit", preset: "8192", help: "`tokens` a vllm worker computes per pass, or unlimited; the KV router reads it for both engines"},
		{name: "enable-prefix-caching", key: "enable_prefix_caching", kind: "bool", preset: "true", help: "reuse KV blocks across requests; =false turns it off"},
		{name: "enable-chunked-prefill", key: "enable_chunked_prefill", kind: "bool", preset: "true", engine: "vllm", help: "cut prompts that exceed what is left of a pass; =false turns it off"},
		{name: "preemption-mode", key: "preemption_mode", kind: "name", preset: "lifo", names: []string{"lifo", "fifo"}, engine: "vllm", help: "who is preempted first: lifo or fifo, by `name`"},
		{name: "speedup-ratio", key: "speedup_ratio", kind: "number", preset: "1", help: "divide the time of every pass by `R`; 0 leaves it"},
		{name: "decode-speedup-ratio", key: "decode_speedup_ratio", kind: "number", preset: "1", cluster: true, help: "divide the time of decoding by a further `R`; 0 leaves it unscaled"},
		{name: "planner-profile-data", key: "planner_profile_data", kind: "path", preset: "a built-in model", help: "`file` of measured pass times (.npz)"},
		{name: "timing-profile", key: "planner_profile_data", kind: "path", preset: "a built-in model", help: "`file` of pass times: a profile of replay calibrate, or .npz"},
		{name: "gpu", key: gpuKey, kind: "path", preset: "none", cluster: true, help: "take pass times from the data sheet of this GPU, by `name`: h100, a100, l4, ..."},
		{name: "model", key: modelKey, kind: "path", preset: "none", cluster: true, help: "model that --gpu runs, by `name`: llama-3.1-8b, qwen3-32b, ...; /tp2 behind it: on 2 GPUs"},
		{name: "scheduler-profile", key: "scheduler_profile", kind: "name", preset: "reference", names: vllm.Profiles(), engine: "vllm", help: "whose rules the scheduler follows: reference or vllm-0.19, by `name`"},
		{name: "kv-bytes-per-token", key: "kv_bytes_per_token", kind: "int", preset: "unknown", cluster: true, help: "`bytes` of KV cache per token, for handoffs to decode workers and for offload"},
		{name: "kv-transfer-bandwidth", key: "kv_transfer_bandwidth", kind: "number", preset: "handoffs take no time", cluster: true, help: "`GB/s` from prefill to decode workers"},
		{name: "num-g2-blocks", key: "num_g2_blocks", kind: "int", preset: "no offload", engine: "vllm", help: "KV `blocks` in host memory, to which evicted ones go"},
		{name: "offload-batch-size", key: "offload_batch_size", kind: "int", preset: "32", engine: "vllm", help: "KV `blocks` per transfer to the host"},
		{name: "bandwidth-g1-to-g2-gbps", key: "bandwidth_g1_to_g2_gbps", kind: "number", preset: "14", engine: "vllm", help: "`GB/s` to the host; 0: transfers take no time"},
		{name: "bandwidth-g2-to-g1-gbps", key: "bandwidth_g2_to_g1_gbps", kind: "number", preset: "14", engine: "vllm", help: "`GB/s` from the host; 0: transfers take no time"},
		{name: "startup-time", key: "startup_time", kind: "number", preset: "0", help: "`seconds` until a worker that --scale adds serves"},
		{name: "schedule-policy", key: "sglang.schedule_policy", kind: "name", preset: "fifo", names: []string{"fifo", "fcfs", "lpm"}, engine: "sglang", help: "sglang: order of the queue: fifo or lpm, by `name`"},
		{name: "max-prefill-tokens", key: "sglang.max_prefill_tokens", kind: "int", preset: "16384", engine: "sglang", help: "sglang: prompt `tokens` per pass"},
		{name: "chunked-prefill-size", key: "sglang.chunked_prefill_size", kind: "int", preset: "8192", engine: "sglang", help: "sglang: prompt `tokens` of one request per pass"},
		{name: "clip-max-new-tokens", key: "sglang.clip_max_new_tokens", kind: "int", preset: "4096", engine: "sglang", help: "sglang: answer `tokens` reserved at most"},
		{name: "schedule-conservativeness", key: "sglang.schedule_conservativeness", kind: "number", preset: "1", engine: "sglang", help: "sglang: `factor` on the memory reserved for answers"},
	}
}

// poolNames are what the flags of one pool begin with.
func poolNames() [2]string { return [2]string{"prefill", "decode"} }

func (e *engine) bind(fs *pflag.FlagSet) {
	e.settings = engineSettings()
	for i := range e.settings {
		e.settings[i].bind(fs)
	}
	for i, pool := range poolNames() {
		e.own[i] = poolSettings(fs, pool)
		for j := range e.own[i] {
			s := &e.own[i][j]
			s.bind(fs)
			fs.Lookup(s.name).Hidden = true
		}
	}
}

// poolSettings are the settings that a pool may have to itself. There is none for
// the speedup of the decode pool, which --decode-speedup-ratio is already: that
// pool does nothing but decode.
func poolSettings(fs *pflag.FlagSet, pool string) []setting {
	var own []setting
	for _, s := range engineSettings() {
		s.name = pool + "-" + s.name
		if !s.cluster && fs.Lookup(s.name) == nil {
			own = append(own, s)
		}
	}
	return own
}

// values are the given settings as engine arguments.
func values(settings []setting) []engineargs.Setting {
	var all []engineargs.Setting
	if path, ok := roofline(settings); ok {
		all = append(all, engineargs.Setting{Key: "planner_profile_data", Value: strconv.Quote(path)})
	}
	for _, s := range given(settings) {
		if s.key == gpuKey || s.key == modelKey {
			continue
		}
		all = append(all, engineargs.Setting{Key: s.key, Value: *s.text})
		if s.key == "block_size" { // what SGLang may call by another name
			all = append(all, engineargs.Setting{Key: "sglang.page_size", Value: *s.text})
		}
	}
	return all
}
