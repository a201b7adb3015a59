package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests counts the requests of users, beside those that Frontend counts. With
// a Frontend it is what package frontend calls Metrics.
type Requests struct {
	*Frontend
	total                   *prometheus.CounterVec
	inflight                *prometheus.GaugeVec
	duration, first         *prometheus.HistogramVec
	inputTokens, outputSize *prometheus.CounterVec
}

// Requests makes the metrics of a frontend's requests.
func (m *Metrics) Requests() *Requests {
	k := maker{registry: m.registry}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return add(k, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return add(k, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durations()}, []string{"model"}))
	}
	return &Requests{
		Frontend: m.Frontend(nil, nil),
		total:    vec("dynamo_frontend_requests_total", "Requests that were answered, by status; 499: the client left.", "model", "endpoint", "request_type", "status"),
		inflight: add(k, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dynamo_frontend_inflight_requests", Help: "Requests that are being answered.",
		}, []string{"model"})),
		duration:    histogram("dynamo_frontend_request_duration_seconds", "Time from request to end of answer."),
		first:       histogram("dynamo_frontend_time_to_first_token_seconds", "Time from request to first token."),
		inputTokens: vec("dynamo_frontend_input_tokens_total", "Tokens of prompts.", "model"),
		outputSize:  vec("dynamo_frontend_output_tokens_total", "Tokens of answers.", "model"),
	}
}

// Started counts a request in flight.
func (r *Requests) Started(model, _, _ string) { r.inflight.WithLabelValues(model).Inc() }

// Finished ends that.
func (r *Requests) Finished(model, endpoint, kind string, status int, took time.Duration) {
	r.inflight.WithLabelValues(model).Dec()
	r.total.WithLabelValues(model, endpoint, kind, strconv.Itoa(status)).Inc()
	r.duration.WithLabelValues(model).Observe(took.Seconds())
}

// First notes the time to the first token.
func (r *Requests) First(model string, took time.Duration) {
	r.first.WithLabelValues(model).Observe(took.Seconds())
}

// Tokens counts tokens of a request that has ended.
func (r *Requests) Tokens(model string, input, output int) {
	r.inputTokens.WithLabelValues(model).Add(float64(input))
	r.outputSize.WithLabelValues(model).Add(float64(output))
}
