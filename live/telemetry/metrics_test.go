package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// text returns the served metrics without comment lines.
func text(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(rec.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func hasAll(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains("\n"+text, "\n"+w) {
			t.Errorf("no line that begins with %s in\n%s", w, text)
		}
	}
}

// The cancellation metrics have the documented lines.
func TestCancellationLines(t *testing.T) {
	m := NewMetrics()
	front := m.Requests()
	front.Known("m", "completions", "chat_completions")
	e := m.Endpoint(Name{Namespace: "probe-ns", Component: "backend", Endpoint: "generate"})
	const worker = `dynamo_component_cancellation_total{dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="probe_ns"} `
	hasAll(t, text(t, m), worker+"0\n",
		`dynamo_frontend_model_cancellation_total{endpoint="chat_completions",model="m",request_type="stream"} 0`+"\n",
		`dynamo_frontend_model_cancellation_total{endpoint="completions",model="m",request_type="unary"} 0`+"\n")
	e.Cancelled()
	front.Cancelled("m", "completions", Stream)
	front.Cancelled("m", "completions", Stream)
	hasAll(t, text(t, m), worker+"1\n",
		`dynamo_frontend_model_cancellation_total{endpoint="completions",model="m",request_type="stream"} 2`+"\n",
		`dynamo_frontend_model_cancellation_total{endpoint="completions",model="m",request_type="unary"} 0`+"\n")
	if got := m.Value("dynamo_frontend_model_cancellation_total", map[string]string{"model": "m"}); got != 2 {
		t.Errorf("%v cancellations in all, want 2", got)
	}
	m = NewMetrics()
	m.Endpoint(Name{"n", "c", "e", 255}).Cancelled()
	hasAll(t, text(t, m), `dynamo_component_cancellation_total{dynamo_component="c",dynamo_endpoint="e",dynamo_namespace="n",worker_id="ff"} 1`)
}

// All documented metrics exist with their documented labels.
func TestNames(t *testing.T) {
	m := NewMetrics()
	n := Name{Namespace: "n", Component: "c", Endpoint: "e"}
	e, w, c := m.Endpoint(n), m.Worker(n), m.Client(n)
	if again := m.Endpoint(n); again.requests != e.requests {
		t.Error("the same endpoint has other metrics the second time")
	}
	e.Received(10, 2*time.Millisecond)
	e.Received(5, 0)
	e.Started()
	e.Started()
	e.Finished(20 * time.Millisecond)
	e.First(time.Millisecond)
	e.Sent(7)
	e.Failed("deserialization")
	w.Loaded(2 * time.Second)
	w.Drained(time.Second)
	w.CleanedUp(3 * time.Second)
	w.Rank(1, 4, 16, -1)
	w.Rank(0, 0, 0, 0.5)
	c.Started()
	c.Queued(time.Millisecond)
	c.Sent(time.Millisecond)
	c.First(time.Millisecond)
	const labels = `{dynamo_component="c",dynamo_endpoint="e",dynamo_namespace="n"} `
	const bucket = `dynamo_component="c",dynamo_endpoint="e",dynamo_namespace="n",le=`
	got := text(t, m)
	hasAll(t, got,
		"dynamo_component_requests_total"+labels+"2\n",
		"dynamo_component_request_bytes_total"+labels+"15\n",
		"dynamo_component_response_bytes_total"+labels+"7\n",
		"dynamo_component_inflight_requests"+labels+"1\n",
		"dynamo_component_request_duration_seconds_bucket{"+bucket+`"0.01"} 0`,
		"dynamo_component_request_duration_seconds_bucket{"+bucket+`"0.025"} 1`,
		"dynamo_component_request_duration_seconds_bucket{"+bucket+`"600"} 1`,
		`dynamo_component_errors_total{dynamo_component="c",dynamo_endpoint="e",dynamo_namespace="n",error_type="deserialization"} 1`,
		`dynamo_component_errors_total{dynamo_component="c",dynamo_endpoint="e",dynamo_namespace="n",error_type="publish_response"} 0`,
		"dynamo_work_handler_network_transit_seconds_count"+labels+"1\n",
		"dynamo_work_handler_time_to_first_response_seconds_count"+labels+"1\n",
		"dynamo_component_model_load_time_seconds"+labels+"2\n",
		"dynamo_component_drain_time_seconds"+labels+"1\n",
		"dynamo_component_cleanup_time_seconds"+labels+"3\n",
		"dynamo_component_uptime_seconds{",
		`dynamo_component_total_blocks{dp_rank="1",dynamo_component="c",dynamo_endpoint="e",dynamo_namespace="n"} 16`,
		`dynamo_component_gpu_cache_usage_percent{dp_rank="1",dynamo_component="c",dynamo_endpoint="e",dynamo_namespace="n"} 0.25`,
		`dynamo_component_kv_cache_hit_rate{dp_rank="0",dynamo_component="c",dynamo_endpoint="e",dynamo_namespace="n"} 0.5`,
		"dynamo_request_plane_queue_seconds_count"+labels+"1\n",
		"dynamo_request_plane_send_seconds_count"+labels+"1\n",
		"dynamo_request_plane_roundtrip_ttft_seconds_count"+labels+"1\n",
		"dynamo_request_plane_inflight_requests"+labels+"1\n",
	)
	if strings.Contains(got, `dynamo_component_kv_cache_hit_rate{dp_rank="1"`) {
		t.Error("a hit rate that nobody measured is shown")
	}
	c.Finished()
	if v := m.Value("dynamo_request_plane_inflight_requests", nil); v != 0 {
		t.Errorf("%v calls in flight, want none", v)
	}
}

func TestRegister(t *testing.T) {
	m := NewMetrics()
	own := prometheus.NewCounter(prometheus.CounterOpts{Name: "own_total", Help: "x"})
	if err := m.Register(own); err != nil {
		t.Error(err)
	}
	own.Inc()
	hasAll(t, text(t, m), "own_total 1\n")
	if err := m.Register(7); err == nil {
		t.Error("a number was registered")
	}
	if err := m.Register(own); err == nil {
		t.Error("the same was registered twice")
	}
}
