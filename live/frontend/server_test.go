package frontend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/frontend"
)

// The complete bytes of an answer that is not streamed.
func TestUnary(t *testing.T) {
	s := open(t, &fake{answer: repeat}, nil)
	const id = "0b0f63c6-63e0-4e93-b2a7-5e3f5ac8a8a0"
	for _, test := range []struct{ path, body, want string }{
		{
			"/v1/completions", `{"model":"m","prompt":"the ab","max_tokens":3}`,
			`{"id":"cmpl-` + id + `","object":"text_completion","created":1700000001,"model":"m","choices":[{"index":0,"text":"the ab the","logprobs":null,"finish_reason":"length"}],` +
				`"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}`,
		},
		{
			"/v1/completions", `{"model":"m","prompt":[[7,353]],"max_tokens":2,"echo":true}`,
			`{"id":"cmpl-` + id + `","object":"text_completion","created":1700000001,"model":"m","choices":[{"index":0,"text":"actiona actiona","logprobs":null,"finish_reason":"length"}],` +
				`"usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4}}`,
		},
		{
			"/v1/completions", `{"model":"m","prompt":["the","ab"],"n":2,"max_tokens":1}`,
			`{"id":"cmpl-` + id + `","object":"text_completion","created":1700000001,"model":"m","choices":[` +
				`{"index":0,"text":"the","logprobs":null,"finish_reason":"length"},{"index":1,"text":"the","logprobs":null,"finish_reason":"length"},` +
				`{"index":2,"text":"ab","logprobs":null,"finish_reason":"length"},{"index":3,"text":"ab","logprobs":null,"finish_reason":"length"}],` +
				`"usage":{"prompt_tokens":2,"completion_tokens":4,"total_tokens":6}}`,
		},
		{
			"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"é"}]}],"max_completion_tokens":5}`,
			`{"id":"chatcmpl-` + id + `","object":"chat.completion","created":1700000001,"model":"m","choices":[{"index":0,` +
				`"message":{"role":"assistant","content":"<|user|>\né"},"logprobs":null,"finish_reason":"length"}],` +
				`"usage":{"prompt_tokens":11,"completion_tokens":5,"total_tokens":16}}`,
		},
	} {
		rq, err := http.NewRequest(http.MethodPost, "http://"+s.address+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		rq.Header.Set("X-Request-Id", id)
		r, err := s.client.Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode != http.StatusOK || string(b) != test.want+"\n" {
			t.Errorf("%s\ngot  %d %s\nwant 200 %s", test.body, r.StatusCode, b, test.want)
		}
		if got := r.Header.Get("X-Request-Id"); got != id {
			t.Errorf("request id %q, want %q", got, id)
		}
	}
	s.await(t, 4, "requests_total")
	if s.count("inflight_requests") != 0 || s.count("time_to_first_token_seconds") != 4 || s.count("model_cancellation_total") != 0 {
		t.Errorf("%d first tokens, %d cancelled, want 4 and 0", s.count("time_to_first_token_seconds"), s.count("model_cancellation_total"))
	}
}

// A stream has the content of the unary answer in pieces, followed by usage and [DONE].
func TestStream(t *testing.T) {
	s := open(t, &fake{answer: repeat}, nil)
	for _, test := range []struct{ path, body string }{
		{"/v1/completions", `{"model":"m","prompt":"añb","max_tokens":9`},
		{"/v1/completions", `{"model":"m","prompt":[1,2,500],"max_tokens":4,"echo":true`},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"system","content":"x"},{"role":"user","content":"y"}],"max_tokens":30`},
		{"/v1/completions", `{"model":"m","prompt":"a","max_tokens":0,"echo":true`},
	} {
		_, whole := s.post(t, test.path, test.body+"}")
		wantText, wantReason := text(t, whole)
		r, body := s.post(t, test.path, test.body+`,"stream":true,"stream_options":{"include_usage":true}}`)
		if got := r.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("content type %q", got)
		}
		all := events(t, body)
		if last := all[len(all)-1]; last != "[DONE]" {
			t.Fatalf("last event %q, want [DONE]", last)
		}
		var said, reason string
		for _, e := range all[:len(all)-1] {
			a, b := text(t, e)
			said, reason = said+a, reason+b
		}
		if said != wantText || reason != wantReason {
			t.Errorf("%s: stream says %q, %s, want %q, %s", test.body, said, reason, wantText, wantReason)
		}
		var usage struct{ Usage *engine.Usage }
		if err := json.Unmarshal([]byte(all[len(all)-2]), &usage); err != nil || usage.Usage == nil || !strings.Contains(whole, fmt.Sprintf(`"total_tokens":%d}`, usage.Usage.TotalTokens)) {
			t.Errorf("usage in %q, want that of %s", all[len(all)-2], whole)
		}
	}
}

// Each invalid request gets its status and message.
func TestRefusals(t *testing.T) {
	s := open(t, &fake{answer: repeat}, func(c *frontend.Config) { c.MaxBody = 20000 })
	const ok = http.StatusOK
	const bad = http.StatusBadRequest
	for _, test := range []struct {
		method, path, body string
		status             int
		word               string
	}{
		{"GET", "/v1/completions", "", http.StatusMethodNotAllowed, "must be POST"},
		{"POST", "/v1/models", "", http.StatusMethodNotAllowed, "must be GET"},
		{"GET", "/v2", "", http.StatusNotFound, "no such path"},
		{"POST", "/v1/completions", ``, bad, "body is missing, must be"},
		{"POST", "/v1/completions", `[]`, bad, "must be a JSON object"},
		{"POST", "/v1/completions", `{`, bad, "body: not JSON: "},
		{"POST", "/v1/completions", `{"model":"m","prompt":"a"} x`, bad, "body: not JSON: "},
		{"POST", "/v1/completions", `{"prompt":"a"}`, bad, "model is missing"},
		{"POST", "/v1/completions", `{"model":"x","prompt":"a"}`, http.StatusNotFound, `model \"x\" is not served: must be one of m`},
		{"POST", "/v1/completions", `{"model":"m"}`, bad, "prompt is missing or empty"},
		{"POST", "/v1/completions", `{"model":"m","prompt":""}`, bad, "prompt is missing or empty"},
		{"POST", "/v1/completions", `{"model":"m","prompt":[]}`, bad, "at least one prompt"},
		{"POST", "/v1/completions", `{"model":"m","prompt":[[]]}`, bad, "the prompt is empty"},
		{"POST", "/v1/completions", `{"model":"m","prompt":["a",[1]]}`, bad, "must be of the type of the first prompt"},
		{"POST", "/v1/completions", `{"model":"m","prompt":[-1]}`, bad, "prompt"},
		{"POST", "/v1/completions", `{"model":"m","prompt":[4294967296]}`, bad, "must be a token id of the vocabulary"},
		{"POST", "/v1/completions", `{"model":"m","prompt":[null]}`, bad, "must be an integer"},
		{"POST", "/v1/completions", `{"model":"m","prompt":7}`, bad, "body.prompt"},
		{"POST", "/v1/completions", `{"model":"m","prompt":{"a":1}}`, bad, "body.prompt"},
		{"POST", "/v1/completions", `{"model":"m","prompt":["a"]}`, ok, ""},
		{"POST", "/v1/completions", `{"model":"m","prompt":"a","max_tokens":-1}`, bad, "max_tokens is -1, must be at least 1"},
		{"POST", "/v1/completions", `{"model":"m","prompt":"a","max_tokens":1.5}`, bad, "body.max_tokens is 1.5, must be an integer"},
		{"POST", "/v1/completions", `{"model":"m","prompt":"a","n":0}`, bad, "n is 0, must be at least 1"},
		{"POST", "/v1/completions", `{"model":"m","prompt":"a","best_of":2}`, bad, "best_of is 2"},
		{"POST", "/v1/completions", `{"model":"m","prompt":"a","stop":7}`, bad, "body.stop"},
		{"POST", "/v1/completions", `{"model":"m","prompt":"a","stream_options":{"include_usage":true}}`, bad, "stream_options requires stream"},
		{"POST", "/v1/completions", `{"model":"m","prompt":"` + strings.Repeat("a", 6001) + `"}`, bad, "maximum context length is 1000 tokens"},
		{"POST", "/v1/completions", `{"model":"m","prompt":"` + strings.Repeat("a", 20000) + `"}`, http.StatusRequestEntityTooLarge, "at most 20000"},
		{"POST", "/v1/completions", strings.Repeat("[", 15000), bad, "body: not JSON: "},
		{"POST", "/v1/chat/completions", `{"model":"m"}`, bad, "body.messages"},
		{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"content":""}]}`, bad, "body.messages.0.role"},
		{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image"}]}]}`, bad, "a part that is not text"},
		{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":5}]}`, bad, "body.messages.0.content"},
		{"POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user"}],"max_tokens":1,"max_completion_tokens":2000}`, bad, "max_tokens is 2000, must be at most"},
	} {
		r, body := s.do(t, test.method, test.path, strings.NewReader(test.body))
		if r.StatusCode != test.status || !strings.Contains(body, test.word) {
			t.Errorf("%s %s %.80s: %d %s, want %d with %q", test.method, test.path, test.body, r.StatusCode, body, test.status, test.word)
		}
		var e struct {
			Error struct{ Message, Type string }
		}
		if test.status != ok && (json.Unmarshal([]byte(body), &e) != nil || e.Error.Message == "" || e.Error.Type == "") {
			t.Errorf("%.80s: %s, want an error with a message and a type", test.body, body)
		}
	}
}

// Refusals before the call of a model are counted by status and parameter.
func TestRefusalsAreCounted(t *testing.T) {
	s := open(t, &fake{answer: repeat}, nil)
	for body, labels := range map[string][]string{
		`{"model":"m","prompt":"a","temperature":-1}`:    {"status=400", "param=temperature"},
		`{"model":"m","prompt":[1,-5],"n":2}`:            {"status=400", "param=prompt"},
		`{"model":"x","prompt":"a"}`:                     {"status=404", "param=model"},
		`{`:                                              {"status=400", "param=body"},
		`{"model":"m","prompt":"a","max_tokens":100000}`: {"status=400", "param=max_tokens"},
	} {
		s.post(t, "/v1/completions", body)
		if n := s.count("refused_requests_total", append(labels, "endpoint=completions")...); n != 1 {
			t.Errorf("%s: %d counted as %v, want 1", body, n, labels)
		}
	}
	if n := s.count("refused_requests_total"); n != 5 {
		t.Errorf("%d refusals, want 5", n)
	}
	if n := s.count("requests_total"); n != 0 {
		t.Errorf("%d requests of models, want none", n)
	}
}

// A body without a declared length above the limit is rejected too.
func TestChunkedBody(t *testing.T) {
	s := open(t, &fake{answer: repeat}, func(c *frontend.Config) { c.MaxBody = 1000 })
	body := io.MultiReader(strings.NewReader(`{"model":"m","prompt":"`), strings.NewReader(strings.Repeat("a", 1000)), strings.NewReader(`"}`))
	if r, _ := s.do(t, "POST", "/v1/completions", body); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413", r.StatusCode)
	}
	if r, _ := s.do(t, "POST", "/v1/completions", io.MultiReader(strings.NewReader(`{"model":"m","prompt":"a"}`))); r.StatusCode != http.StatusOK {
		t.Errorf("status %d, want 200", r.StatusCode)
	}
}

// The errors of models have the statuses of the specification.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		retry  string
	}{
		{fault.New(fault.CannotConnect, "x: %w", drt.ErrNoInstances), 503, ""},
		{fault.New(fault.ResourceExhausted, "busy"), 503, "1"},
		{fault.New(fault.BackendInvalidArgument, "bad"), 400, ""},
		{fault.New(fault.InvalidArgument, "bad"), 400, ""},
		{fault.New(fault.Disconnected, "gone"), 500, ""},
		{errors.New("anything"), 500, ""},
	} {
		// Each error is tested as the error of the call and as the error of the first element.
		for _, f := range []*fake{
			{setup: func(*engine.Request) error { return test.err }},
			{answer: func(_ context.Context, _ cancel.Context, _ *engine.Request, yield func(*engine.Chunk, error) bool) {
				yield(nil, test.err)
			}},
		} {
			s := open(t, f, nil)
			for _, stream := range []string{"", `,"stream":true`} {
				r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a"`+stream+`}`)
				if r.StatusCode != test.status || r.Header.Get("Retry-After") != test.retry || !strings.Contains(body, `"error"`) {
					t.Errorf("%v: %d, retry after %q: %s", test.err, r.StatusCode, r.Header.Get("Retry-After"), body)
				}
			}
		}
	}
}

// An error in the middle of a stream is its last event; [DONE] is not sent.
func TestErrorInStream(t *testing.T) {
	for name, last := range map[string]func(yield func(*engine.Chunk, error) bool){
		"error": func(yield func(*engine.Chunk, error) bool) { yield(nil, fault.New(fault.Disconnected, "gone")) },
		"reason": func(yield func(*engine.Chunk, error) bool) {
			yield(&engine.Chunk{FinishReason: engine.FinishError("x")}, nil)
		},
		"no other": func(func(*engine.Chunk, error) bool) {},
	} {
		s := open(t, &fake{answer: func(_ context.Context, _ cancel.Context, _ *engine.Request, yield func(*engine.Chunk, error) bool) {
			yield(&engine.Chunk{TokenIDs: []uint32{400}}, nil)
			last(yield)
		}}, nil)
		_, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a","stream":true}`)
		all := events(t, body)
		if len(all) != 2 || !strings.Contains(all[1], `"error"`) {
			t.Errorf("%s: events %q, want a token and an error", name, all)
		}
		s.await(t, 1, "requests_total")
		if s.count("requests_total", "status=500") != 1 || s.count("model_cancellation_total") != 0 {
			t.Errorf("%s: want a status of 500 and nothing cancelled", name)
		}
	}
}

func TestModelsAndHealth(t *testing.T) {
	s := open(t, &fake{}, func(c *frontend.Config) {
		c.Expose = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "exposed") })
	})
	for path, want := range map[string]string{
		"/v1/models":   `{"object":"list","data":[{"id":"m","object":"model","created":1700000000,"owned_by":"replay","context_window":1000,"max_model_len":1000}]}` + "\n",
		"/v1/models/m": `{"id":"m","object":"model","created":1700000000,"owned_by":"replay","context_window":1000,"max_model_len":1000}` + "\n",
		"/health":      `{"status":"healthy","models":[{"name":"m","instances":2}]}` + "\n",
		"/live":        `{"status":"live"}` + "\n",
		"/metrics":     "exposed",
	} {
		if r, body := s.do(t, "GET", path, nil); r.StatusCode != 200 || body != want {
			t.Errorf("%s: %d %q, want 200 %q", path, r.StatusCode, body, want)
		}
	}
	if r, body := s.do(t, "GET", "/v1/models/a/b", nil); r.StatusCode != 404 || !strings.Contains(body, `model \"a/b\" is not served: must be one of m`) {
		t.Errorf("a model that is not served: %d %s", r.StatusCode, body)
	}
	empty := open(t, &fake{}, func(c *frontend.Config) { c.Models = models{} })
	if r, body := empty.do(t, "GET", "/health", nil); r.StatusCode != 503 || body != `{"status":"unhealthy","models":[]}`+"\n" {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	if r, _ := empty.do(t, "GET", "/metrics", nil); r.StatusCode != 404 {
		t.Errorf("metrics without any: %d, want 404", r.StatusCode)
	}
}

// Shutdown kills requests that do not end in time. Clients of killed requests receive an error, as a status or as the
// last event.
func TestShutdownKills(t *testing.T) {
	for _, how := range []struct {
		body, want, last string
		tokens           int
	}{
		{`{"model":"m","prompt":"a"}`, "HTTP/1.1 503", `"code":503}}`, 0},
		{`{"model":"m","prompt":"a"}`, "HTTP/1.1 503", `"code":503}}`, 2},
		{`{"model":"m","prompt":"a","stream":true}`, "HTTP/1.1 503", `"code":503}}`, 0},
		{`{"model":"m","prompt":"a","stream":true}`, "HTTP/1.1 200", `"code":503}}`, 2},
	} {
		began := make(chan struct{})
		s := open(t, &fake{answer: func(_ context.Context, rc cancel.Context, _ *engine.Request, yield func(*engine.Chunk, error) bool) {
			for range how.tokens {
				yield(&engine.Chunk{TokenIDs: []uint32{400}}, nil)
			}
			close(began)
			<-rc.Killed()
		}}, nil)
		c := s.dial(t, raw("/v1/completions", how.body))
		<-began
		ctx, release := context.WithTimeout(context.Background(), time.Millisecond)
		defer release()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v, want the deadline", err)
		}
		b, err := io.ReadAll(c)
		lines := strings.Fields(string(b))
		if err != nil || !strings.HasPrefix(string(b), how.want) || !strings.Contains(string(b), how.last) || strings.Contains(string(b), "[DONE]") {
			t.Errorf("%s after %d tokens: %v, read %q, want %s and in the end %s", how.body, how.tokens, err, lines, how.want, how.last)
		}
		s.await(t, 1, "requests_total", "status=503")
		if n := s.count("model_cancellation_total"); n != 0 {
			t.Errorf("%d cancelled, want none", n)
		}
	}
}

// Health reports how long discovery has been out of date.
func TestHealthStale(t *testing.T) {
	var since time.Time
	s := open(t, &fake{answer: repeat}, func(c *frontend.Config) { c.Stale = func() time.Time { return since } })
	if r, b := s.do(t, "GET", "/health", nil); r.StatusCode != 200 || strings.Contains(b, "stale") {
		t.Errorf("up to date: %d %s", r.StatusCode, b)
	}
	since = time.Now().Add(-time.Minute)
	if r, b := s.do(t, "GET", "/health", nil); r.StatusCode != 200 || !strings.Contains(b, `"discovery_stale_seconds":60.`) {
		t.Errorf("old: %d %s", r.StatusCode, b)
	}
}
