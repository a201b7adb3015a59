package engine

import (
	"context"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// A cancellation is counted once per request that received one before its end,
// whatever the engine made of it.
func TestLocalCounts(t *testing.T) {
	counting := func(_ context.Context, rq *Request, rc GenContext, yield func(*Chunk, error) bool) {
		for i := range uint32(3) {
			if rc.IsStopped() && rq.Model != "deaf" {
				yield(finish(FinishCancelled), nil)
				return
			}
			if !yield(token(i), nil) {
				return
			}
		}
		yield(finish(FinishLength), nil)
	}
	tests := []struct {
		name  string
		model string
		each  func(n int, rc cancel.Context) bool // what the consumer does with element n; false leaves
		want  float64
	}{
		{"to the end", "", func(int, cancel.Context) bool { return true }, 0},
		{"stopped", "", func(n int, rc cancel.Context) bool { rc.Stop(); return true }, 1},
		{"stopped and killed", "", func(n int, rc cancel.Context) bool { rc.Stop(); rc.Kill(); return true }, 1},
		{"killed", "", func(n int, rc cancel.Context) bool { rc.Kill(); return true }, 1},
		{"left", "", func(n int, rc cancel.Context) bool { return n < 2 }, 1},
		{"stopped and left", "", func(n int, rc cancel.Context) bool { rc.Stop(); return false }, 1},
		{"stopped after the terminal", "", func(n int, rc cancel.Context) bool {
			if n == 4 {
				rc.Stop()
			}
			return true
		}, 0},
		{"left with the terminal", "", func(n int, rc cancel.Context) bool { return n < 4 }, 0},
		{"a deaf engine", "deaf", func(n int, rc cancel.Context) bool { rc.Stop(); return true }, 1},
	}
	for _, test := range tests {
		m := telemetry.NewMetrics()
		l := NewLocal(NewAdapter(&fake{generate: counting}, AdapterOptions{}), m.Endpoint(telemetry.Name{Namespace: "n", Component: "c", Endpoint: "e"}))
		rc, rq := cancel.New(""), request()
		rq.Model = test.model
		chunks, err := l.Generate(t.Context(), rc, rq, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range chunks {
			if n++; !test.each(n, rc) {
				break
			}
		}
		for name, want := range map[string]float64{
			"dynamo_component_cancellation_total": test.want, "dynamo_component_requests_total": 1, "dynamo_component_inflight_requests": 0,
			"dynamo_component_request_duration_seconds": 1, "dynamo_work_handler_time_to_first_response_seconds": 1,
		} {
			if got := m.Value(name, nil); got != want {
				t.Errorf("%s: %s is %v, want %v", test.name, name, got, want)
			}
		}
	}
	m := telemetry.NewMetrics()
	l := NewLocal(NewAdapter(&fake{setup: func(*Request) error { return fault.InvalidArgument }}, AdapterOptions{}), m.Endpoint(telemetry.Name{}))
	if _, err := l.Generate(t.Context(), cancel.New(""), request(), nil); err == nil {
		t.Error("no error")
	}
	if got := m.Value("dynamo_component_errors_total", map[string]string{"error_type": "generate"}); got != 1 {
		t.Errorf("%v errors, want 1", got)
	}
}
