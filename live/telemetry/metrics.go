package telemetry

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is the metric registry of one process.
type Metrics struct{ registry *prometheus.Registry }

// NewMetrics returns an empty registry.
func NewMetrics() *Metrics { return &Metrics{prometheus.NewRegistry()} }

// Handler serves the metrics in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Register adds a prometheus.Collector of an engine.
func (m *Metrics) Register(collector any) error {
	c, ok := collector.(prometheus.Collector)
	if !ok {
		return fmt.Errorf("collector is a %T, must be a prometheus.Collector", collector)
	}
	return m.registry.Register(c)
}

// Name is the origin of metrics. The fields of a Name are labels.
type Name struct {
	Namespace, Component, Endpoint string
	// WorkerID, if not 0, is the label worker_id. Within one Metrics, either all names have a WorkerID or none.
	WorkerID uint64
}

func (n Name) labelSet() prometheus.Labels {
	l := prometheus.Labels{
		"dynamo_namespace": sanitizeLabel(n.Namespace), "dynamo_component": sanitizeLabel(n.Component), "dynamo_endpoint": sanitizeLabel(n.Endpoint),
	}
	if n.WorkerID != 0 {
		l["worker_id"] = strconv.FormatUint(n.WorkerID, 16)
	}
	return l
}

// sanitizeLabel replaces each character that is no ASCII letter or digit with _.
func sanitizeLabel(text string) string {
	return strings.Map(func(r rune) rune {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return '_'
		}
		return r
	}, text)
}

// maker makes and registers metrics with the same labels.
type maker struct {
	registry *prometheus.Registry
	labels   prometheus.Labels
}

// registerOnce registers c, or returns the collector that is already registered for it.
func registerOnce[C prometheus.Collector](m maker, c C) C {
	err := m.registry.Register(c)
	if already, ok := err.(prometheus.AlreadyRegisteredError); ok {
		if same, ok := already.ExistingCollector.(C); ok {
			return same
		}
	}
	if err != nil {
		panic("metrics: " + err.Error()) // two metrics of this file have the same name
	}
	return c
}

func (m maker) newCounter(name, help string, labels ...string) *prometheus.CounterVec {
	return registerOnce(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: m.labels}, labels))
}

func (m maker) newGauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return registerOnce(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: m.labels}, labels))
}

func (m maker) newHistogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return registerOnce(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: m.labels, Buckets: buckets}, labels))
}

// requestBuckets returns the histogram buckets for durations of requests, in seconds.
func requestBuckets() []float64 {
	return []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
}

// messageBuckets returns the histogram buckets for durations of messages, in seconds.
func messageBuckets() []float64 {
	return []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
}

// Endpoint counts the requests of one endpoint of a worker.
type Endpoint struct {
	requests, requestBytes, responseBytes, cancellations prometheus.Counter
	inflight                                             prometheus.Gauge
	duration, transit, first                             prometheus.Observer
	errors                                               *prometheus.CounterVec
}

// errorTypes returns the label values of request errors.
func errorTypes() []string {
	return []string{"deserialization", "invalid_message", "response_stream", "generate", "publish_response", "publish_final"}
}

// Endpoint makes the metrics of an endpoint. All metrics start at 0.
func (m *Metrics) Endpoint(n Name) *Endpoint {
	k := maker{m.registry, n.labelSet()}
	e := &Endpoint{
		requests:      k.newCounter("dynamo_component_requests_total", "Requests that reached the endpoint.").WithLabelValues(),
		requestBytes:  k.newCounter("dynamo_component_request_bytes_total", "Bytes of requests.").WithLabelValues(),
		responseBytes: k.newCounter("dynamo_component_response_bytes_total", "Bytes of responses.").WithLabelValues(),
		cancellations: k.newCounter("dynamo_component_cancellation_total", "Requests that received a signal to end.").WithLabelValues(),
		inflight:      k.newGauge("dynamo_component_inflight_requests", "Requests that are being answered.").WithLabelValues(),
		duration:      k.newHistogram("dynamo_component_request_duration_seconds", "Time from request to end of response.", requestBuckets()).WithLabelValues(),
		transit:       k.newHistogram("dynamo_work_handler_network_transit_seconds", "Time from caller to worker.", messageBuckets()).WithLabelValues(),
		first:         k.newHistogram("dynamo_work_handler_time_to_first_response_seconds", "Time from request to first item.", requestBuckets()).WithLabelValues(),
		errors:        k.newCounter("dynamo_component_errors_total", "Requests that failed, by what failed.", "error_type"),
	}
	for _, t := range errorTypes() {
		e.errors.WithLabelValues(t)
	}
	return e
}

// Received counts a request and its bytes. A transit of 0 is unknown.
func (e *Endpoint) Received(bytes int, transit time.Duration) {
	e.requests.Inc()
	e.requestBytes.Add(float64(bytes))
	if transit > 0 {
		e.transit.Observe(transit.Seconds())
	}
}

// Started counts a request in flight.
func (e *Endpoint) Started() { e.inflight.Inc() }

// Finished ends a request in flight.
func (e *Endpoint) Finished(took time.Duration) {
	e.inflight.Dec()
	e.duration.Observe(took.Seconds())
}

// First records the time to the first item.
func (e *Endpoint) First(took time.Duration) { e.first.Observe(took.Seconds()) }

// Sent counts the bytes of items.
func (e *Endpoint) Sent(bytes int) { e.responseBytes.Add(float64(bytes)) }

// Failed counts an error. kind is one of deserialization, invalid_message, response_stream, generate,
// publish_response and publish_final.
func (e *Endpoint) Failed(kind string) { e.errors.WithLabelValues(kind).Inc() }

// Cancelled counts a cancelled request. Cancelled is called once per request.
func (e *Endpoint) Cancelled() { e.cancellations.Inc() }

// Worker has the metrics of a worker and of the ranks of its engine.
type Worker struct {
	load, drain, cleanup   prometheus.Gauge
	blocks, usage, hitRate *prometheus.GaugeVec
}

// Worker makes the metrics of a worker that starts now.
func (m *Metrics) Worker(n Name) *Worker {
	k := maker{m.registry, n.labelSet()}
	started := time.Now()
	registerOnce(k, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dynamo_component_uptime_seconds", Help: "Time since the worker started.", ConstLabels: k.labels,
	}, func() float64 { return time.Since(started).Seconds() }))
	return &Worker{
		load:    k.newGauge("dynamo_component_model_load_time_seconds", "How long the engine took to start.").WithLabelValues(),
		drain:   k.newGauge("dynamo_component_drain_time_seconds", "How long the engine took to drain.").WithLabelValues(),
		cleanup: k.newGauge("dynamo_component_cleanup_time_seconds", "How long the engine took to clean up.").WithLabelValues(),
		blocks:  k.newGauge("dynamo_component_total_blocks", "KV blocks of a rank.", "dp_rank"),
		usage:   k.newGauge("dynamo_component_gpu_cache_usage_percent", "Share of KV blocks in use, 0 to 1.", "dp_rank"),
		hitRate: k.newGauge("dynamo_component_kv_cache_hit_rate", "Share of prompt tokens found in the cache, 0 to 1.", "dp_rank"),
	}
}

// Loaded records how long the engine took to start.
func (w *Worker) Loaded(took time.Duration) { w.load.Set(took.Seconds()) }

// Drained records how long the engine took to drain.
func (w *Worker) Drained(took time.Duration) { w.drain.Set(took.Seconds()) }

// CleanedUp records how long the engine took to clean up.
func (w *Worker) CleanedUp(took time.Duration) { w.cleanup.Set(took.Seconds()) }

// Rank records the KV cache usage of a rank. A negative hit rate is unknown.
func (w *Worker) Rank(rank, active, total int, hitRate float64) {
	label := strconv.Itoa(rank)
	w.blocks.WithLabelValues(label).Set(float64(total))
	if total > 0 {
		w.usage.WithLabelValues(label).Set(float64(active) / float64(total))
	}
	if hitRate >= 0 {
		w.hitRate.WithLabelValues(label).Set(hitRate)
	}
}

// Client counts calls to an endpoint.
type Client struct {
	queue, send, first prometheus.Observer
	inflight           prometheus.Gauge
	moved              *prometheus.CounterVec
}

// Client makes the metrics of calls to an endpoint.
func (m *Metrics) Client(n Name) *Client {
	k := maker{m.registry, n.labelSet()}
	moved := k.newCounter("replay_moved_requests_total", "Requests that went to another worker after theirs failed, by whether it had begun to answer.", "begun")
	for _, begun := range []bool{false, true} {
		moved.WithLabelValues(strconv.FormatBool(begun))
	}
	return &Client{
		moved:    moved,
		queue:    k.newHistogram("dynamo_request_plane_queue_seconds", "Time from call to sending.", messageBuckets()).WithLabelValues(),
		send:     k.newHistogram("dynamo_request_plane_send_seconds", "Time from sending to acknowledgement.", messageBuckets()).WithLabelValues(),
		first:    k.newHistogram("dynamo_request_plane_roundtrip_ttft_seconds", "Time from sending to first item.", requestBuckets()).WithLabelValues(),
		inflight: k.newGauge("dynamo_request_plane_inflight_requests", "Calls without the end of their response.").WithLabelValues(),
	}
}

// Started counts a call in flight.
func (c *Client) Started() { c.inflight.Inc() }

// Finished ends a call in flight.
func (c *Client) Finished() { c.inflight.Dec() }

// Queued records the time until the request was sent.
func (c *Client) Queued(took time.Duration) { c.queue.Observe(took.Seconds()) }

// Sent records the time until the request was acknowledged.
func (c *Client) Sent(took time.Duration) { c.send.Observe(took.Seconds()) }

// First records the time until the first item.
func (c *Client) First(took time.Duration) { c.first.Observe(took.Seconds()) }

// Moved counts a request that was moved to another worker. begun reports whether the first worker had begun to
// answer.
func (c *Client) Moved(begun bool) { c.moved.WithLabelValues(strconv.FormatBool(begun)).Inc() }

// Kinds of requests at a frontend.
const (
	Unary  = "unary"
	Stream = "stream"
)

// Requests counts the requests of clients to a frontend.
type Requests struct {
	total, refused, cancellations, inputTokens, outputTokens *prometheus.CounterVec
	inflight                                                 *prometheus.GaugeVec
	queued                                                   prometheus.Gauge
	duration, first                                          *prometheus.HistogramVec
}

// Requests makes the metrics of a frontend's requests.
func (m *Metrics) Requests() *Requests {
	k := maker{registry: m.registry}
	return &Requests{
		total:         k.newCounter("dynamo_frontend_requests_total", "Requests that were answered, by status; 499: the client left.", "model", "endpoint", "request_type", "status"),
		refused:       k.newCounter("dynamo_frontend_refused_requests_total", "Requests that no model was asked for, by status and the parameter that was wrong.", "endpoint", "status", "param"),
		cancellations: k.newCounter("dynamo_frontend_model_cancellation_total", "Requests with a client that left before the answer was written.", "model", "endpoint", "request_type"),
		inputTokens:   k.newCounter("dynamo_frontend_input_tokens_total", "Tokens of prompts.", "model"),
		outputTokens:  k.newCounter("dynamo_frontend_output_tokens_total", "Tokens of answers.", "model"),
		inflight:      k.newGauge("dynamo_frontend_inflight_requests", "Requests that are being answered.", "model"),
		queued:        k.newGauge("dynamo_frontend_queued_requests", "Requests that wait for running requests to end.").WithLabelValues(),
		duration:      k.newHistogram("dynamo_frontend_request_duration_seconds", "Time from request to end of answer.", requestBuckets(), "model"),
		first:         k.newHistogram("dynamo_frontend_time_to_first_token_seconds", "Time from request to first token.", requestBuckets(), "model"),
	}
}

// SlowReaders returns a function that counts connections that were closed because the client did not read its answer.
func (m *Metrics) SlowReaders() func(model string) {
	count := maker{registry: m.registry}.newCounter("replay_slow_readers_total", "Connections closed because the client did not read its answer.", "model")
	return func(model string) { count.WithLabelValues(model).Inc() }
}

// Faults returns a function that counts injected faults by kind.
func (m *Metrics) Faults() func(kind string) {
	count := maker{registry: m.registry}.newCounter("replay_faults_injected_total", "Faults that were injected, by kind.", "fault")
	return func(kind string) { count.WithLabelValues(kind).Inc() }
}

// Stale adds a gauge for the age of the known workers. Each scrape calls staleFor, which returns 0 while discovery
// works.
func (m *Metrics) Stale(staleFor func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "replay_discovery_stale_seconds", Help: "Age of the known workers; 0 while discovery works.",
	}, func() float64 { return staleFor().Seconds() }))
}

// Known sets the cancellations of a model to 0 for the given endpoints (completions, chat_completions).
func (r *Requests) Known(model string, endpoints ...string) {
	for _, e := range endpoints {
		for _, kind := range []string{Unary, Stream} {
			r.cancellations.WithLabelValues(model, e, kind)
		}
	}
}

// Started counts a request in flight.
func (r *Requests) Started(model string) { r.inflight.WithLabelValues(model).Inc() }

// Finished counts a finished request. status is the HTTP status of its answer.
func (r *Requests) Finished(model, endpoint, kind string, status int, took time.Duration) {
	r.inflight.WithLabelValues(model).Dec()
	r.total.WithLabelValues(model, endpoint, kind, strconv.Itoa(status)).Inc()
	r.duration.WithLabelValues(model).Observe(took.Seconds())
}

// Refused counts a request that reached no model. param is the wrong parameter, or "".
func (r *Requests) Refused(endpoint string, status int, param string) {
	r.refused.WithLabelValues(endpoint, strconv.Itoa(status), param).Inc()
}

// Queued adds to the number of waiting requests. more may be negative.
func (r *Requests) Queued(more int) { r.queued.Add(float64(more)) }

// First records the time to the first token.
func (r *Requests) First(model string, took time.Duration) {
	r.first.WithLabelValues(model).Observe(took.Seconds())
}

// Tokens counts the tokens of a finished request.
func (r *Requests) Tokens(model string, input, output int) {
	r.inputTokens.WithLabelValues(model).Add(float64(input))
	r.outputTokens.WithLabelValues(model).Add(float64(output))
}

// Cancelled counts a request of a client that disconnected before the end of the answer.
func (r *Requests) Cancelled(model, endpoint, kind string) {
	r.cancellations.WithLabelValues(model, endpoint, kind).Inc()
}

// Value returns the value of a counter or gauge, or the count of a histogram. Value sums all metrics of that name
// that have the given labels.
func (m *Metrics) Value(name string, labels map[string]string) (sum float64) {
	families, _ := m.registry.Gather() // omits families with an error
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, one := range f.GetMetric() {
			equal := 0
			for _, l := range one.GetLabel() {
				if value, given := labels[l.GetName()]; given && value == l.GetValue() {
					equal++
				}
			}
			if equal == len(labels) {
				sum += one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}
