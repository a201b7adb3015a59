package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The kinds of requests that a frontend counts.
const (
	Unary  = "unary"
	Stream = "stream"
)

// Requests counts the requests of users to a frontend.
type Requests struct {
	total, cancellations, inputTokens, outputTokens *prometheus.CounterVec
	inflight                                        *prometheus.GaugeVec
	duration, first                                 *prometheus.HistogramVec
}

// Requests makes the metrics of a frontend's requests.
func (m *Metrics) Requests() *Requests {
	k := maker{registry: m.registry}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return registerOnce(k, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return registerOnce(k, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: requestBuckets()}, []string{"model"}))
	}
	return &Requests{
		total:         counter("dynamo_frontend_requests_total", "Requests that were answered, by status; 499: the client left.", "model", "endpoint", "request_type", "status"),
		cancellations: counter("dynamo_frontend_model_cancellation_total", "Requests whose client left before the answer was written.", "model", "endpoint", "request_type"),
		inputTokens:   counter("dynamo_frontend_input_tokens_total", "Tokens of prompts.", "model"),
		outputTokens:  counter("dynamo_frontend_output_tokens_total", "Tokens of answers.", "model"),
		inflight:      k.newGaugeVec("dynamo_frontend_inflight_requests", "Requests that are being answered.", "model"),
		duration:      histogram("dynamo_frontend_request_duration_seconds", "Time from request to end of answer."),
		first:         histogram("dynamo_frontend_time_to_first_token_seconds", "Time from request to first token."),
	}
}

// Known shows the cancellations of a model at 0 for some endpoints (completions,
// chat_completions).
func (r *Requests) Known(model string, endpoints ...string) {
	for _, e := range endpoints {
		for _, kind := range []string{Unary, Stream} {
			r.cancellations.WithLabelValues(model, e, kind)
		}
	}
}

// Started counts a request in flight.
func (r *Requests) Started(model string) { r.inflight.WithLabelValues(model).Inc() }

// Finished counts a request that has ended. status is that of its answer.
func (r *Requests) Finished(model, endpoint, kind string, status int, took time.Duration) {
	r.inflight.WithLabelValues(model).Dec()
	r.total.WithLabelValues(model, endpoint, kind, strconv.Itoa(status)).Inc()
	r.duration.WithLabelValues(model).Observe(took.Seconds())
}

// First notes the time to the first token.
func (r *Requests) First(model string, took time.Duration) {
	r.first.WithLabelValues(model).Observe(took.Seconds())
}

// Tokens counts the tokens of a request that has ended.
func (r *Requests) Tokens(model string, input, output int) {
	r.inputTokens.WithLabelValues(model).Add(float64(input))
	r.outputTokens.WithLabelValues(model).Add(float64(output))
}

// Cancelled counts a request whose client left before the whole answer was
// written.
func (r *Requests) Cancelled(model, endpoint, kind string) {
	r.cancellations.WithLabelValues(model, endpoint, kind).Inc()
}
