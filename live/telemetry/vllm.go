package telemetry

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// VLLM has the metrics of one engine with the names, types, labels and buckets of vLLM's server.
type VLLM struct {
	running, waiting, capacity, usage                  prometheus.Gauge
	queries, hits, preemptions, prompt, cached, device prometheus.Counter
	computed, local, generated                         prometheus.Counter
	success                                            *prometheus.CounterVec
	rejections                                         map[string]prometheus.Counter
	adapters                                           *prometheus.GaugeVec // nil: no adapters

	promptTokens, generatedTokens, iteration, maxGenerated, choices, limit prometheus.Observer
	latencies
	requestPreemptions, requestComputed prometheus.Observer
}

// latencies contains the histograms of request times.
type latencies struct {
	first, gap, perToken, total, queued, inference, prefill, decode prometheus.Observer
}

// vllmMaker makes metrics like vLLM's: each counter and histogram has a gauge with its creation time.
type vllmMaker struct {
	maker
	since float64
}

func (k vllmMaker) newSince(name string, labels prometheus.Labels) {
	all := prometheus.Labels{}
	for _, some := range []prometheus.Labels{k.labels, labels} {
		for key, value := range some {
			all[key] = value
		}
	}
	registerOnce(k.maker, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name + "_created", Help: "Start of counting, in seconds since 1970.", ConstLabels: all},
		func() float64 { return k.since }))
}

func (k vllmMaker) counter(name, help string, labels ...string) prometheus.Counter {
	var names []string
	values := prometheus.Labels{}
	for i := 0; i < len(labels); i += 2 {
		names = append(names, labels[i])
		values[labels[i]] = labels[i+1]
	}
	k.newSince(name, values)
	return k.newCounter(name+"_total", help, names...).With(values)
}

func (k vllmMaker) histogram(name, help string, buckets []float64) prometheus.Observer {
	k.newSince(name, nil)
	return k.newHistogram(name, help, buckets).WithLabelValues()
}

// oneTwoFive returns 1, 2, 5, 10, 20, 50 and further numbers up to most.
func oneTwoFive(most float64) (all []float64) {
	for unit := 1.0; ; unit *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if n*unit > most {
				return all
			}
			all = append(all, n*unit)
		}
	}
}

// vllmFirstBuckets returns vLLM's histogram buckets for the time to first token, in seconds.
func vllmFirstBuckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
}

func vllmGapBuckets() []float64 {
	return []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
}

func vllmRequestBuckets() []float64 {
	return []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
}

func vllmPassBuckets() []float64 {
	return []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
}

// VLLMConfig is the configuration of an engine.
type VLLMConfig struct {
	Model         string
	BlockTokens   int
	Blocks        int
	PrefixCaching bool
	Longest       int     // maximum tokens of prompt and answer
	Utilization   float64 // share of the GPU's memory that vLLM uses
	MaxAdapters   int     // maximum number of LoRA adapters in use; 0: no adapters
}

// VLLM makes the metrics of one engine. All metrics start at 0.
func (m *Metrics) VLLM(c VLLMConfig) *VLLM {
	labels := prometheus.Labels{"engine": "0", "model_name": c.Model}
	k := vllmMaker{maker{m.registry, labels}, float64(time.Now().UnixNano()) / 1e9}
	tokens := oneTwoFive(float64(max(1, c.Longest)))
	v := &VLLM{
		rejections:  map[string]prometheus.Counter{},
		running:     k.newGauge("vllm:num_requests_running", "Requests in the batch.").WithLabelValues(),
		waiting:     k.newGauge("vllm:num_requests_waiting", "Requests that wait for a place in it.").WithLabelValues(),
		usage:       k.newGauge("vllm:kv_cache_usage_perc", "Share of the KV blocks that requests hold, 0 to 1.").WithLabelValues(),
		queries:     k.counter("vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache."),
		hits:        k.counter("vllm:prefix_cache_hits", "Prompt tokens found there."),
		preemptions: k.counter("vllm:num_preemptions", "Preemptions."),
		prompt:      k.counter("vllm:prompt_tokens", "Prompt tokens."),
		cached:      k.counter("vllm:prompt_tokens_cached", "Prompt tokens that were cached."),
		computed:    k.counter("vllm:prompt_tokens_by_source", "Prompt tokens, by where they come from.", "source", "local_compute"),
		generated:   k.counter("vllm:generation_tokens", "Generated tokens."),

		promptTokens:    k.histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", tokens),
		generatedTokens: k.histogram("vllm:request_generation_tokens", "Generated tokens of a request.", tokens),
		iteration:       k.histogram("vllm:iteration_tokens_total", "Tokens of a pass.", vllmPassBuckets()),
		maxGenerated:    k.histogram("vllm:request_max_num_generation_tokens", "Generated tokens of the longest of a request's answers.", tokens),
		choices:         k.histogram("vllm:request_params_n", "Answers that a request asks for.", oneTwoFive(20)),
		limit:           k.histogram("vllm:request_params_max_tokens", "Tokens that a request asks for at most.", tokens),
		latencies: latencies{
			first:     k.histogram("vllm:time_to_first_token_seconds", "Time to the first token.", vllmFirstBuckets()),
			gap:       k.histogram("vllm:inter_token_latency_seconds", "Time between two tokens.", vllmGapBuckets()),
			perToken:  k.histogram("vllm:request_time_per_output_token_seconds", "Mean time per token of a request, after the first.", vllmGapBuckets()),
			total:     k.histogram("vllm:e2e_request_latency_seconds", "Time of a request in all.", vllmRequestBuckets()),
			queued:    k.histogram("vllm:request_queue_time_seconds", "Time that a request waited.", vllmRequestBuckets()),
			inference: k.histogram("vllm:request_inference_time_seconds", "Time from a request's place in the batch to its last token.", vllmRequestBuckets()),
			prefill:   k.histogram("vllm:request_prefill_time_seconds", "Time from there to its first token.", vllmRequestBuckets()),
			decode:    k.histogram("vllm:request_decode_time_seconds", "Time from the first to the last token.", vllmRequestBuckets()),
		},
		requestPreemptions: k.histogram("vllm:request_num_preemptions", "Times that a request was preempted.", []float64{1, 2, 3, 4, 5, 10, 20}),
		requestComputed:    k.histogram("vllm:request_prefill_kv_computed_tokens", "Prompt tokens of a request that were not cached.", tokens),
	}
	v.addParts(k, c)
	return v
}

// addParts adds the counters by reason or source, and the constant values of the engine.
func (v *VLLM) addParts(k vllmMaker, c VLLMConfig) {
	v.local = k.counter("vllm:prompt_tokens_by_source", "Prompt tokens, by where they come from.", "source", "local_cache_hit")
	k.counter("vllm:prompt_tokens_by_source", "Prompt tokens, by where they come from.", "source", "external_kv_transfer")
	for _, source := range []string{"device", "host", "p2p", "disk", "external_unspecified"} {
		n := k.counter("vllm:prompt_tokens_cached_by_source", "Prompt tokens that were cached, by where.", "source", source)
		if source == "device" {
			v.device = n
		}
	}
	for _, name := range []string{"external_prefix_cache", "mm_cache"} {
		k.counter("vllm:"+name+"_queries", "Look-ups in a cache that this engine has not.")
		k.counter("vllm:"+name+"_hits", "Hits in a cache that this engine has not.")
	}
	by := k.newGauge("vllm:num_requests_waiting_by_reason", "Requests that wait, by reason.", "reason")
	v.capacity = by.WithLabelValues("capacity")
	by.WithLabelValues("deferred")
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		k.newSince("vllm:request_success", prometheus.Labels{"finished_reason": reason})
	}
	v.success = k.newCounter("vllm:request_success_total", "Requests that ended, by why.", "finished_reason")
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		v.success.WithLabelValues(reason)
	}
	asleep := k.newGauge("vllm:engine_sleep_state", "1 for the state in which the engine is.", "sleep_state")
	asleep.WithLabelValues("awake").Set(1)
	asleep.WithLabelValues("weights_offloaded")
	asleep.WithLabelValues("discard_all")
	v.addConfig(k, c)
}

// addConfig adds the counters that stay 0, and the configuration of the engine.
func (v *VLLM) addConfig(k vllmMaker, c VLLMConfig) {
	for _, what := range []string{"flops", "read_bytes", "write_bytes"} {
		k.counter("vllm:estimated_"+what+"_per_gpu", "Not estimated.")
	}
	server := vllmMaker{maker{k.registry, prometheus.Labels{"model_name": c.Model}}, k.since}
	for _, reason := range []string{"max_num_queued_reqs", "max_num_queued_tokens"} {
		v.rejections[reason] = server.counter("vllm:admission_rejections", "Requests rejected by a queue limit.", "reason", reason)
	}
	caching := map[bool]string{true: "True", false: "False"}[c.PrefixCaching]
	tokens := c.Blocks * c.BlockTokens
	about := prometheus.Labels{
		"engine": "0", "block_size": strconv.Itoa(c.BlockTokens), "num_gpu_blocks": strconv.Itoa(c.Blocks), "num_gpu_blocks_override": strconv.Itoa(c.Blocks),
		"num_cpu_blocks": "None", "enable_prefix_caching": caching, "prefix_caching_hash_algo": "sha256", "cache_dtype": "auto", "sliding_window": "None",
		"is_attention_free": "False", "gpu_memory_utilization": strconv.FormatFloat(c.Utilization, 'g', -1, 64), "kv_cache_size_tokens": strconv.Itoa(tokens),
		"kv_cache_max_concurrency": strconv.FormatFloat(float64(tokens)/float64(max(1, c.Longest)), 'f', -1, 64),
	}
	config := maker{k.registry, about}
	if c.MaxAdapters > 0 {
		k := maker{k.registry, prometheus.Labels{"max_lora": strconv.Itoa(c.MaxAdapters)}}
		v.adapters = k.newGauge("vllm:lora_requests_info", "When these LoRA adapters were in use last, in seconds since 1970.", "running_lora_adapters", "waiting_lora_adapters")
	}
	config.newGauge("vllm:cache_config_info", "The KV cache, in labels.").WithLabelValues().Set(1)
}

// Passed records a pass.
func (v *VLLM) Passed(p *Pass) {
	v.running.Set(float64(p.Running))
	v.waiting.Set(float64(p.Waiting))
	v.capacity.Set(float64(p.Waiting))
	v.usage.Set(float64(p.Held) / float64(max(1, p.Blocks)))
	v.preemptions.Add(float64(p.Preempted))
	v.generated.Add(float64(p.Generated))
	if p.Generated > 0 {
		v.iteration.Observe(float64(p.PromptTokens + p.Generated))
	}
	if v.adapters != nil {
		v.adapters.WithLabelValues(strings.Join(p.RunningAdapters, ","), strings.Join(p.WaitingAdapters, ",")).SetToCurrentTime()
	}
	p.observeTimes(v.first, v.gap)
}

// Admitted counts the lookup of a prompt in the prefix cache.
func (v *VLLM) Admitted(prompt, cached int) {
	v.queries.Add(float64(prompt))
	v.hits.Add(float64(cached))
	v.device.Add(float64(cached))
}

// Prefilled counts the prompt tokens and cached tokens of a request that got its first token.
func (v *VLLM) Prefilled(prompt, cached int) {
	v.prompt.Add(float64(prompt))
	v.cached.Add(float64(cached))
	v.local.Add(float64(cached))
	v.computed.Add(float64(prompt - cached))
}

// Over counts a finished request. reason is stop, length, abort or error.
func (v *VLLM) Over(r *Request, reason string) {
	v.success.WithLabelValues(reason).Inc()
	v.promptTokens.Observe(float64(r.Prompt))
	v.generatedTokens.Observe(float64(r.Generated))
	v.limit.Observe(float64(r.Limit))
	v.total.Observe(r.Total)
	v.queued.Observe(r.Queued)
	v.prefill.Observe(r.Prefill)
	v.decode.Observe(r.Decode)
	v.inference.Observe(r.Prefill + r.Decode)
	v.requestPreemptions.Observe(float64(r.Preemptions))
	v.requestComputed.Observe(float64(r.Prompt - r.Cached))
	v.perToken.Observe(r.Decode / float64(max(1, r.Generated-1)))
}

// Answered counts a prompt after all its answers have ended. longest is the number of tokens of the longest answer.
func (v *VLLM) Answered(answers, longest int) {
	v.choices.Observe(float64(answers))
	v.maxGenerated.Observe(float64(longest))
}

// Rejected counts a request that a queue limit rejected. reason is max_num_queued_reqs or max_num_queued_tokens.
func (v *VLLM) Rejected(reason string) { v.rejections[reason].Inc() }
