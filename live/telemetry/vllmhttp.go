package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// HTTP has the metrics of an HTTP server with the names of vLLM's server.
type HTTP struct {
	requests *prometheus.CounterVec
	in, out  *prometheus.SummaryVec
	all      prometheus.Observer
	took     *prometheus.HistogramVec
	created  map[string]*prometheus.GaugeVec
	since    float64
}

// HTTP makes the metrics of an HTTP server and of the process.
func (m *Metrics) HTTP() *HTTP {
	k := maker{m.registry, nil}
	registerOnce(k, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	const requests, in, out, took = "http_requests", "http_request_size_bytes", "http_response_size_bytes", "http_request_duration_seconds"
	fine := []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}
	since := float64(time.Now().UnixNano()) / 1e9
	highest := k.newHistogram("http_request_duration_highr_seconds", "Time of requests.", fine).WithLabelValues()
	k.newGauge("http_request_duration_highr_seconds_created", "Start of counting, in seconds since 1970.").WithLabelValues().Set(since)
	summary := func(name, help string) *prometheus.SummaryVec {
		return registerOnce(k, prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help}, []string{"handler"}))
	}
	h := &HTTP{
		requests: k.newCounter(requests+"_total", "Requests, by path, method and class of status.", "method", "status", "handler"),
		in:       summary(in, "Bytes of the bodies of requests."),
		out:      summary(out, "Bytes of the bodies of answers with a known size."),
		all:      highest,
		took:     k.newHistogram(took, "Time of requests, by path and method.", []float64{0.1, 0.5, 1}, "method", "handler"),
		created:  map[string]*prometheus.GaugeVec{}, since: since,
	}
	for name, labels := range map[string][]string{requests: {"method", "status", "handler"}, in: {"handler"}, out: {"handler"}, took: {"method", "handler"}} {
		h.created[name] = k.newGauge(name+"_created", "Start of counting, in seconds since 1970.", labels...)
	}
	return h
}

// recorder records the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Through returns the wrapped writer, since Write forwards bytes unchanged.
func (r *recorder) Through() http.ResponseWriter { return r.ResponseWriter }

// Observe serves a request with next, and counts it under a path.
func (h *HTTP) Observe(path string, next http.Handler, w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	seen := &recorder{ResponseWriter: w}
	next.ServeHTTP(seen, r)
	took := time.Since(began).Seconds()
	status := strconv.Itoa(max(seen.status, http.StatusOK)/100) + "xx"
	size, _ := strconv.ParseFloat(w.Header().Get("Content-Length"), 64) // 0 if the length is unknown
	h.count("http_requests", func(l ...string) { h.requests.WithLabelValues(l...).Inc() }, r.Method, status, path)
	h.count("http_request_size_bytes", func(l ...string) { h.in.WithLabelValues(l...).Observe(max(0, float64(r.ContentLength))) }, path)
	h.count("http_response_size_bytes", func(l ...string) { h.out.WithLabelValues(l...).Observe(size) }, path)
	h.count("http_request_duration_seconds", func(l ...string) { h.took.WithLabelValues(l...).Observe(took) }, r.Method, path)
	h.all.Observe(took)
}

// count adds a value with labels, and sets the creation time of the metric.
func (h *HTTP) count(name string, add func(labels ...string), labels ...string) {
	add(labels...)
	h.created[name].WithLabelValues(labels...).Set(h.since)
}
