package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// SGLang has the metrics of one engine with the names, types and buckets of SGLang's server.
type SGLang struct {
	running, queued, usage, used, capacity, hitRate, throughput prometheus.Gauge
	prompt, generated, cached, requests, aborted, retracted     prometheus.Counter
	promptTokens, generatedTokens                               prometheus.Observer
	first, gap, perToken, total, queue                          prometheus.Observer
	blockTokens                                                 int

	since           time.Time // end of the latest pass
	admitted, found int       // prompt tokens of requests admitted since then: all, and cached
}

func sglangFirstBuckets() []float64 {
	return []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
}

func sglangGapBuckets() []float64 {
	return []float64{0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8}
}

func sglangRequestBuckets() []float64 {
	return append(sglangFirstBuckets(), 600, 1200, 1800, 2400)
}

func sglangQueueBuckets() []float64 {
	return []float64{
		0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300, 400, 500, 600, 700, 800, 900,
		1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000,
	}
}

func sglangTokenBuckets() []float64 {
	return []float64{
		100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12500, 15000, 17500, 20000, 22500, 25000, 27500, 30000, 35000, 40000,
		60000, 80000, 100000, 200000, 300000, 400000, 600000, 800000, 1000000, 1100000,
	}
}

// SGLangConfig is the configuration of an engine.
type SGLangConfig struct {
	Model       string
	BlockTokens int // tokens of a page
	Blocks      int // number of pages
}

// SGLang makes the metrics of one engine. All metrics start at 0.
func (m *Metrics) SGLang(c SGLangConfig) *SGLang {
	k := maker{m.registry, prometheus.Labels{"model_name": c.Model, "engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}}
	gauge := func(name, help string) prometheus.Gauge { return k.newGauge("sglang:"+name, help).WithLabelValues() }
	counter := func(name, help string) prometheus.Counter {
		return k.newCounter("sglang:"+name+"_total", help).WithLabelValues()
	}
	histogram := func(name, help string, buckets []float64) prometheus.Observer {
		return k.newHistogram("sglang:"+name, help, buckets).WithLabelValues()
	}
	s := &SGLang{
		running:    gauge("num_running_reqs", "Requests that run."),
		queued:     gauge("num_queue_reqs", "Requests in the queue."),
		usage:      gauge("token_usage", "Share of the KV cache that requests hold, 0 to 1."),
		used:       gauge("num_used_tokens", "Tokens of the KV cache that requests hold."),
		capacity:   gauge("max_total_num_tokens", "Tokens of the KV cache."),
		hitRate:    gauge("cache_hit_rate", "Share of the prompt tokens of the latest pass with any that was cached."),
		throughput: gauge("gen_throughput", "Tokens generated in a second, by the latest pass."),
		prompt:     counter("prompt_tokens", "Prompt tokens of requests that are over."),
		generated:  counter("generation_tokens", "Generated tokens of requests that are over."),
		cached:     k.newCounter("sglang:cached_tokens_total", "Prompt tokens that were cached, by where.", "cache_source").WithLabelValues("device"),
		requests:   counter("num_requests", "Requests that are over."),
		aborted:    counter("num_aborted_requests", "Requests that were aborted."),
		retracted:  counter("num_retracted_requests", "Requests that lost their place."),

		promptTokens:    histogram("prompt_tokens_histogram", "Prompt tokens of a request.", sglangTokenBuckets()),
		generatedTokens: histogram("generation_tokens_histogram", "Generated tokens of a request.", sglangTokenBuckets()),
		first:           histogram("time_to_first_token_seconds", "Time to the first token.", sglangFirstBuckets()),
		gap:             histogram("inter_token_latency_seconds", "Time between two tokens.", sglangGapBuckets()),
		perToken:        histogram("request_time_per_output_token_seconds", "Mean time per token of a request, after the first.", sglangGapBuckets()),
		total:           histogram("e2e_request_latency_seconds", "Time of a request in all.", sglangRequestBuckets()),
		queue:           histogram("queue_time_seconds", "Time that a request was in the queue.", sglangQueueBuckets()),
		blockTokens:     c.BlockTokens,
		since:           time.Now(),
	}
	s.capacity.Set(float64(c.Blocks * c.BlockTokens))
	return s
}

// Passed records a pass.
func (s *SGLang) Passed(p *Pass) {
	now := time.Now()
	s.running.Set(float64(p.Running))
	s.queued.Set(float64(p.Waiting))
	s.usage.Set(float64(p.Held) / float64(max(1, p.Blocks)))
	s.used.Set(float64(p.Held * s.blockTokens))
	s.retracted.Add(float64(p.Preempted))
	if s.admitted > 0 {
		s.hitRate.Set(float64(s.found) / float64(s.admitted))
	}
	if took := now.Sub(s.since).Seconds(); took > 0 {
		s.throughput.Set(float64(p.Generated) / took)
	}
	p.observeTimes(s.first, s.gap)
	s.since, s.admitted, s.found = now, 0, 0
}

// Admitted counts the prompt tokens and the cached tokens of an admitted request.
func (s *SGLang) Admitted(prompt, cached int) {
	s.admitted, s.found = s.admitted+prompt, s.found+cached
}

// Rejected counts a request that the full queue rejected. A rejected request is counted as aborted.
func (s *SGLang) Rejected() { s.aborted.Inc() }

// Prefilled does nothing.
func (s *SGLang) Prefilled(int, int) {}

// Over counts a finished request.
func (s *SGLang) Over(r *Request, aborted bool) {
	s.requests.Inc()
	if aborted {
		s.aborted.Inc()
	}
	s.prompt.Add(float64(r.Prompt))
	s.cached.Add(float64(r.Cached))
	s.generated.Add(float64(r.Generated))
	s.promptTokens.Observe(float64(r.Prompt))
	s.generatedTokens.Observe(float64(r.Generated))
	s.total.Observe(r.Total)
	s.queue.Observe(r.Queued)
	if r.Generated > 1 {
		s.perToken.Observe(r.Decode / float64(r.Generated-1))
	}
}
