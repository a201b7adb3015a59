package frontend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/frontend"
)

// Clients that send slowly are rejected, and do not delay other clients.
func TestSlowSenders(t *testing.T) {
	const begun = "POST /v1/completions HTTP/1.1\r\nHost:"
	for _, c := range []struct {
		what, sends string
		limit       func(*frontend.Config)
		answered    bool
	}{
		{"without all headers", begun, func(c *frontend.Config) { c.ReadHeader = 100 * time.Millisecond }, false},
		{"without all of its body", begun + " x\r\nContent-Length: 100\r\n\r\n{", func(c *frontend.Config) { c.ReadBody = 100 * time.Millisecond }, true},
	} {
		s := open(t, &fake{answer: repeat}, c.limit)
		var slow []net.Conn
		for range 50 {
			slow = append(slow, s.dial(t, c.sends))
		}
		if r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a"}`); r.StatusCode != http.StatusOK {
			t.Errorf("%s: beside slow ones: %d %s", c.what, r.StatusCode, body)
		}
		for _, conn := range slow {
			b, err := io.ReadAll(conn)
			if errors.Is(err, syscall.ECONNRESET) && len(b) == 0 {
				continue // the answer may be lost if the server closes the connection with unread bytes
			}
			if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 408 ")) && (c.answered || len(b) > 0) {
				t.Errorf("%s: %q, %v, want 408 and an end", c.what, b, err)
			}
		}
		if n := s.Active(); n != 0 {
			t.Errorf("%s: %d requests in flight", c.what, n)
		}
	}
}

// The request of a client that does not read its answer is stopped. The client is counted and logged.
func TestSlowReader(t *testing.T) {
	f := &fake{ended: make(chan cancel.Context, 1)}
	f.answer = func(_ context.Context, rc cancel.Context, _ *engine.Request, yield func(*engine.Chunk, error) bool) {
		text := strings.Repeat("x", 1<<20)
		for !rc.IsStopped() {
			if !yield(&engine.Chunk{TokenIDs: []uint32{1}, Text: &text}, nil) {
				return
			}
		}
		yield(&engine.Chunk{FinishReason: engine.FinishCancelled}, nil)
	}
	slow := make(chan string, 1)
	var log bytes.Buffer
	s := open(t, f, func(c *frontend.Config) {
		c.Write, c.SlowReader = 100*time.Millisecond, func(model string) { slow <- model }
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	s.dial(t, raw("/v1/completions", `{"model":"m","prompt":"a","stream":true}`))
	if rc := <-f.ended; !rc.IsStopped() {
		t.Error("not stopped")
	}
	if model := <-slow; model != "m" {
		t.Errorf("slow reader of %q, want m", model)
	}
	s.await(t, 1, "model_cancellation_total", "model=m", "endpoint=completions", "request_type=stream")
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "ResponseTimeout: slow reader") {
		t.Errorf("log: %s", text)
	}
}

// Collected answers have a limit each and a limit together. A stream has neither.
func TestKeptAnswers(t *testing.T) {
	hold, began := make(chan struct{}), make(chan struct{}, 2)
	f := &fake{answer: func(_ context.Context, _ cancel.Context, rq *engine.Request, yield func(*engine.Chunk, error) bool) {
		text := strings.Repeat("x", 10<<10)
		for range rq.MaxTokens(1) {
			if !yield(&engine.Chunk{TokenIDs: []uint32{1}, Text: &text}, nil) {
				return
			}
		}
		began <- struct{}{}
		<-hold
		yield(&engine.Chunk{FinishReason: engine.FinishStop}, nil)
	}}
	s := open(t, f, func(c *frontend.Config) { c.MaxAnswer, c.MaxAnswers = 50<<10, 60<<10 })
	r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a","max_tokens":4}`)
	if r.StatusCode != http.StatusBadRequest || !strings.Contains(body, "51200 bytes") || !strings.Contains(body, `"param":"stream"`) {
		t.Errorf("an answer beyond the bound: %d %s", r.StatusCode, body)
	}
	first := s.dial(t, raw("/v1/completions", `{"model":"m","prompt":"a","max_tokens":2}`))
	<-began
	if r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a","max_tokens":2}`); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" || !strings.Contains(body, "61440 bytes") {
		t.Errorf("all answers beyond the bound: %d %s", r.StatusCode, body)
	}
	close(hold)
	if got := status(t, first); got != http.StatusOK {
		t.Errorf("first: %d", got)
	}
	if r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a","max_tokens":6,"stream":true}`); r.StatusCode != http.StatusOK || strings.Contains(body, "error") {
		t.Errorf("a stream: %d %.200s", r.StatusCode, body)
	}
	if r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a","max_tokens":2}`); r.StatusCode != http.StatusOK {
		t.Errorf("later: %d %.200s", r.StatusCode, body)
	}
}

// The bodies of all requests in flight have a limit. A request above this limit gets 503 with Retry-After.
func TestPending(t *testing.T) {
	hold := make(chan struct{})
	f := &fake{answer: func(_ context.Context, _ cancel.Context, rq *engine.Request, yield func(*engine.Chunk, error) bool) {
		<-hold
		yield(&engine.Chunk{FinishReason: engine.FinishStop}, nil)
	}}
	s := open(t, f, func(c *frontend.Config) { c.MaxBody, c.MaxPending = 1000, 1500 })
	first := s.dial(t, raw("/v1/completions", `{"model":"m","prompt":"a"`+strings.Repeat(" ", 900)+`}`))
	s.await(t, 1, "inflight_requests")
	r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a"`+strings.Repeat(" ", 900)+`}`)
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" {
		t.Errorf("beyond the bound: %d %s", r.StatusCode, body)
	}
	close(hold)
	if got := status(t, first); got != http.StatusOK {
		t.Errorf("first: %d", got)
	}
	if r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a"`+strings.Repeat(" ", 900)+`}`); r.StatusCode != http.StatusOK {
		t.Errorf("later: %d %s", r.StatusCode, body)
	}
}

// Connections above the limit wait for other connections to close.
func TestConnections(t *testing.T) {
	s := open(t, &fake{answer: repeat}, func(c *frontend.Config) { c.MaxConnections = 2 })
	ask := raw("/v1/completions", `{"model":"m","prompt":"a"}`)
	one, two := s.dial(t, ask), s.dial(t, ask)
	if a, b := status(t, one), status(t, two); a != 200 || b != 200 {
		t.Fatalf("statuses %d, %d", a, b)
	}
	three := s.dial(t, ask)
	s.await(t, 2, "requests_total") // the third connection waits
	one.Close()
	if got := status(t, three); got != 200 {
		t.Errorf("status %d", got)
	}
}

// The frontend answers any body with a documented status, and does not crash.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","prompt":"a","stream":true,"stream_options":{"include_usage":true},"max_tokens":3}`,
		`{"model":"m","prompt":[[1,2]],"stop":["x"],"temperature":0.5,"echo":true}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\ud800"}]}],"max_completion_tokens":2}`,
		`{"model":"m","prompt":[1e3]}`, `{"model":7}`, `{"prompt":`, "\xff", `{"model":"m","prompt":[[[1]]]}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	s, err := frontend.New(frontend.Config{Models: models{{Name: "m", ContextLength: 1000, Target: &fake{answer: bounded}}}, MaxBody: 1 << 16})
	if err != nil {
		f.Fatal(err)
	}
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		path := "/v1/completions"
		if chat {
			path = "/v1/chat/completions"
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
		switch w.Code {
		case http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		default:
			t.Errorf("%q: status %d: %s", body, w.Code, w.Body)
		}
		if w.Code == http.StatusOK && strings.HasPrefix(w.Body.String(), "data: ") != strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
			t.Errorf("%q: a stream without its end: %q", body, w.Body)
		}
	})
}

// bounded repeats at most 100 tokens.
func bounded(ctx context.Context, rc cancel.Context, rq *engine.Request, yield func(*engine.Chunk, error) bool) {
	if rq.MaxTokens(16) > 100 {
		rq.SetMaxTokens(100)
	}
	repeat(ctx, rc, rq, yield)
}

// asServer is the environment variable that makes this test binary run a frontend.
const asServer = "REPLAY_TEST_AS_FRONTEND"

// serveAlone runs a frontend as a process: it prints its address and serves until its standard input ends.
func serveAlone() error {
	s, err := frontend.New(frontend.Config{Models: models{{Name: "m", ContextLength: 8192, Target: &fake{answer: repeat}}}})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ctx, release := context.WithTimeout(context.Background(), time.Second)
		defer release()
		_ = s.Shutdown(ctx)
	}()
	return s.Serve(l)
}
