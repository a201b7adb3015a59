package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/fault"
)

// full is an engine with all optional interfaces.
type full struct {
	probeEngine
	sink KVEventSink
	ill  chan bool // whether the next probes fail
}

func (f *full) KVEventSources() ([]KVEventSource, error) {
	return []KVEventSource{{DPRank: 0, OnReady: func(s KVEventSink) { f.sink = s }}}, nil
}

func (f *full) SetupMetrics(c MetricsContext) (MetricsBindings, error) {
	return MetricsBindings{DPRanks: []int{0}, OnPublisherReady: func(rank int, publish func(RankSnapshot)) {
		publish(RankSnapshot{ActiveBlocks: 4, TotalBlocks: 16, HitRate: -1})
	}}, nil
}

func (f *full) HealthCheckPayload() (map[string]any, error) {
	return map[string]any{"token_ids": []int{1}}, nil
}

func (f *full) Controls() []string { return []string{"sleep", "wake_up", "poke"} }

func (f *full) Control(_ context.Context, name string, body []byte) ([]byte, error) {
	f.note(name)
	if string(body) == "bad" {
		return nil, io.ErrUnexpectedEOF
	}
	return json.Marshal(name)
}

func (f *full) Generate(ctx context.Context, rq *Request, rc GenContext) (iter.Seq2[*Chunk, error], error) {
	return func(yield func(*Chunk, error) bool) {
		if rq.HealthCheck && <-f.ill {
			yield(nil, fault.BackendEngineShutdown)
			return
		}
		yield(finish(FinishStop), nil)
	}, nil
}

// get requests a page of the worker's system server.
func get(t *testing.T, r Ready, method, path, body string) (int, string) {
	t.Helper()
	_, port, err := net.SplitHostPort(r.System)
	if err != nil {
		t.Fatal(err)
	}
	rq, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:"+port+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	rs, err := client.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Body.Close()
	b, err := io.ReadAll(rs.Body)
	if err != nil {
		t.Fatal(err)
	}
	return rs.StatusCode, string(b)
}

// All optional interfaces of an engine work: metrics, KV events, controls and health.
func TestSidesOfAnEngine(t *testing.T) {
	b := newBench(t, "DYN_SYSTEM_PORT=0")
	closed := false
	var published []any
	b.config.Publish = func(c PublisherContext) (KVEventSink, func(), error) {
		if c.Config.KVCacheBlockSize != 16 || c.WorkerID == 0 {
			t.Errorf("the publisher was told %+v", c)
		}
		return func(events []any) { published = append(published, events...) }, func() { closed = true }, nil
	}
	e := &full{}
	done := b.run(t, e)
	r := <-b.ready
	e.sink([]any{"stored"})
	if len(published) != 1 {
		t.Errorf("published %v", published)
	}
	if code, text := get(t, r, "GET", "/health", ""); code != 200 || !strings.Contains(text, `"ready"`) {
		t.Errorf("health is %d %s", code, text)
	}
	if code, _ := get(t, r, "GET", "/live", ""); code != 200 {
		t.Errorf("live is %d", code)
	}
	_, text := get(t, r, "GET", "/metrics", "")
	for _, want := range []string{
		`dynamo_component_cancellation_total{dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dynamo"} 0`,
		`dynamo_component_gpu_cache_usage_percent{dp_rank="0",dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dynamo"} 0.25`,
		`dynamo_component_total_blocks{dp_rank="0",dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dynamo"} 16`,
		`dynamo_component_errors_total{dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="dynamo",error_type="publish_final"} 0`,
		`dynamo_component_model_load_time_seconds{`, `dynamo_component_uptime_seconds{`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, "dynamo_component_kv_cache_hit_rate{") {
		t.Error("a hit rate that nobody measured is shown")
	}
	if code, text := get(t, r, "POST", "/engine/sleep", "{}"); code != 200 || text != "\"sleep\"\n" {
		t.Errorf("sleep is %d %s", code, text)
	}
	if keys := b.hub.Keys(t); len(keys) != 1 { // only the card is left
		t.Errorf("asleep, with keys %q", keys)
	}
	if code, _ := get(t, r, "GET", "/health", ""); code != 503 {
		t.Errorf("asleep, health is %d", code)
	}
	if code, _ := get(t, r, "POST", "/engine/wake_up", "bad"); code != 500 || len(b.hub.Keys(t)) != 1 {
		t.Errorf("a bad wake-up is %d, keys %q", code, b.hub.Keys(t))
	}
	if code, _ := get(t, r, "POST", "/engine/wake_up", "{}"); code != 200 || len(b.hub.Keys(t)) != 3 {
		t.Errorf("awake, %d, keys %q", code, b.hub.Keys(t))
	}
	if code, _ := get(t, r, "POST", "/engine/dance", ""); code != 404 {
		t.Errorf("an unknown control is %d", code)
	}
	slow, err := net.Dial("tcp", r.System)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_, _ = io.WriteString(slow, "POST /engine/sleep HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
	if a, err := http.ReadResponse(bufio.NewReader(slow), nil); err != nil || a.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that never ends: %v, %v", a, err)
	}
	b.signals <- syscall.SIGTERM
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := e.String(); got != "start sleep wake_up wake_up drain cleanup" || !closed {
		t.Errorf("calls %q, publisher closed: %v", got, closed)
	}
}

// /health reports failures of the canary, and its recovery.
func TestCanary(t *testing.T) {
	b := newBench(t, "DYN_SYSTEM_PORT=0")
	b.config.CanaryAfter, b.config.CanaryLimit = 5*time.Millisecond, time.Minute
	e := &full{ill: make(chan bool)}
	done := b.run(t, e)
	r := <-b.ready
	becomes := func(code int, ill bool) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; {
			select {
			case e.ill <- ill:
			case <-time.After(time.Millisecond):
			}
			if got, text := get(t, r, "GET", "/health", ""); got == code {
				return
			} else if time.Now().After(limit) {
				t.Fatalf("health is %d %s, want %d", got, text, code)
			}
		}
	}
	becomes(503, true)
	becomes(200, false)
	becomes(503, true)
	close(e.ill) // probes succeed from now on
	poll.Until(t, "healthy again", func() bool {
		got, _ := get(t, r, "GET", "/health", "")
		return got == 200
	})
	b.signals <- syscall.SIGTERM
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// /health reports an engine that hangs. The engine does not delay the end of its worker.
func TestCanaryHangs(t *testing.T) {
	b := newBench(t, "DYN_SYSTEM_PORT=0")
	b.config.CanaryAfter, b.config.CanaryLimit = time.Millisecond, 10*time.Millisecond
	e := &full{ill: make(chan bool)}
	done := b.run(t, e)
	r := <-b.ready
	for code := 200; code != 503; {
		code, _ = get(t, r, "GET", "/health", "")
	}
	b.signals <- syscall.SIGTERM
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(e.ill)
}

// The payload is taken from each source. Invalid payloads disable the canary.
func TestHealthPayload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payload.json")
	if err := os.WriteFile(file, []byte(`{"token_ids":[3]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		config map[string]any
		env    string
		want   string
	}{
		{map[string]any{"token_ids": []int{9}}, `{"token_ids":[8]}`, `{"_HEALTH_CHECK":true,"token_ids":[9]}`},
		{nil, `{"token_ids":[8]}`, `{"_HEALTH_CHECK":true,"token_ids":[8]}`},
		{nil, "@" + file, `{"_HEALTH_CHECK":true,"token_ids":[3]}`},
		{nil, "", `{"_HEALTH_CHECK":true,"token_ids":[1]}`},
		{nil, "[1]", ""},
		{nil, "null", ""},
		{nil, "@/no/such/file", ""},
	}
	for _, test := range tests {
		b := newBench(t, "DYN_HEALTH_CHECK_PAYLOAD="+test.env)
		b.config.HealthCheck = test.config
		w, err := NewWorker(&full{}, b.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.newCanary(); string(got.payload) != test.want {
			t.Errorf("%v, %s: payload %s, want %s", test.config, test.env, got.payload, test.want)
		}
	}
	w, err := NewWorker(&probeEngine{}, newBench(t).config)
	if err != nil {
		t.Fatal(err)
	}
	if c := w.newCanary(); c.payload != nil {
		t.Errorf("payload %s out of nowhere", c.payload)
	}
	if _, err := w.Control(t.Context(), "sleep", nil); !errors.Is(err, fault.BackendInvalidArgument) {
		t.Errorf("a control of an engine without any: %v", err)
	}
}
