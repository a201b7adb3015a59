package openai_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/openai"
)

var (
	vllmServer = flag.String("vllm-server", "", "ask vLLM's own server at this `address` what is recorded: model tiny, 512 tokens of context")
	rewrite    = flag.Bool("rewrite", false, "put what is answered now into testdata")
)

// recorded is a request, the answer of vLLM's server, and the answer of this package if it differs.
type recorded struct {
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
	Raw    *string         `json:"raw,omitempty"` // a body that is not JSON
	Status int             `json:"status"`
	Answer any             `json:"answer"`
	Ours   *answered       `json:"ours,omitempty"`
	// Message is the error message of this package, if the answer is an error.
	Message string `json:"message,omitempty"`
}

type answered struct {
	Status int `json:"status"`
	Answer any `json:"answer"`
}

func (r *recorded) body() []byte {
	if r.Raw != nil {
		return []byte(*r.Raw)
	}
	return r.Body
}

// keptPhrase is the phrase of vLLM's errors that clients match.
const keptPhrase = "This model's maximum context length is 512 tokens"

// Requests of all kinds get the answers of vLLM's server: status, shape, counts, and the type and parameter of
// errors. The file lists the answers that differ, and each error message. The messages differ from vLLM's, except for
// the phrase that clients match.
func TestVLLM(t *testing.T) {
	const file = "testdata/vllm-0.32.0.json"
	all := readRecorded(t, file)
	for i := range all {
		r := &all[i]
		status, body := answer(t, r.Path, r.body())
		got := &answered{status, shapeOf(t, r.Path, status, body)}
		if *vllmServer != "" {
			r.Status, r.Answer = askServer(t, r)
		}
		want := &answered{r.Status, r.Answer}
		message, theirs := takeMessage(got), takeMessage(want)
		if got.Status != http.StatusOK && (message == "" || message == theirs) {
			t.Errorf("%s %s: %q is no sentence of this package", r.Path, r.body(), message)
		}
		if strings.Contains(theirs, keptPhrase) != strings.Contains(message, keptPhrase) {
			t.Errorf("%s %s: %q, vLLM answers %q", r.Path, r.body(), message, theirs)
		}
		if *rewrite {
			r.Ours, r.Message = nil, message
			if !same(want, got) {
				r.Ours = got
			}
			continue
		}
		if r.Ours != nil {
			want = r.Ours
		}
		if message != r.Message {
			t.Errorf("%s %s: %q, must be %q", r.Path, r.body(), message, r.Message)
		}
		if !same(want, got) {
			t.Errorf("%s %s\ngot  %d %s\nwant %d %s", r.Path, r.body(), got.Status, encode(t, got.Answer), want.Status, encode(t, want.Answer))
		}
	}
	if *rewrite {
		writeRecorded(t, file, all)
	}
}

// takeMessage removes the error message from an answer, and returns the message.
func takeMessage(a *answered) string {
	e, ok := find(a.Answer, "error").(map[string]any)
	if !ok {
		return ""
	}
	message, _ := e["message"].(string)
	e = cloneMap(e)
	delete(e, "message")
	a.Answer = map[string]any{"error": e}
	return message
}

// same reports whether two answers are the same for a client. A parameter that only this package names in an error is
// ignored, since vLLM's server often omits it.
func same(want, got *answered) bool {
	a, b := want.Answer, got.Answer
	if e, ok := find(a, "error").(map[string]any); ok && e["param"] == nil {
		if o, ok := find(b, "error").(map[string]any); ok {
			o = cloneMap(o)
			delete(o, "param")
			b = map[string]any{"error": o}
		}
	}
	return want.Status == got.Status && reflect.DeepEqual(a, b)
}

func find(v any, key string) any {
	m, _ := v.(map[string]any)
	return m[key]
}

func cloneMap(m map[string]any) map[string]any {
	c := make(map[string]any)
	for k, v := range m {
		c[k] = v
	}
	return c
}

func readRecorded(t *testing.T, file string) (all []recorded) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// writeRecorded writes one request per line.
func writeRecorded(t *testing.T, file string, all []recorded) {
	t.Helper()
	var b bytes.Buffer
	for i := range all {
		b.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		b.WriteString(encode(t, all[i]))
	}
	b.WriteString("\n]\n")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// askServer sends a request to vLLM's server.
func askServer(t *testing.T, r *recorded) (int, any) {
	t.Helper()
	reply, err := http.Post("http://"+*vllmServer+r.Path, "application/json", bytes.NewReader(r.body()))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, shapeOf(t, r.Path, reply.StatusCode, string(b))
}

// shapeOf returns the compared part of an answer: everything except texts, ids, times and probabilities. The events
// of a stream are sorted by choice.
func shapeOf(t *testing.T, path string, status int, body string) any {
	t.Helper()
	if !strings.HasPrefix(body, "data: ") {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return shape("", v, path)
	}
	var events []any
	for e := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		e = strings.TrimPrefix(e, "data: ")
		var v any = e
		if e != "[DONE]" {
			if err := json.Unmarshal([]byte(e), &v); err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			v = shape("", v, path)
		}
		events = append(events, v)
	}
	slices.SortStableFunc(events, func(a, b any) int { return indexOf(a) - indexOf(b) })
	return events
}

// indexOf returns the choice of an event. Final events return 1000 or more.
func indexOf(event any) int {
	if event == "[DONE]" {
		return 1001
	}
	choices, _ := find(event, "choices").([]any)
	if len(choices) == 0 {
		return 1000
	}
	index := find(choices[0], "index").(float64)
	if delta := find(choices[0], "delta"); find(delta, "role") != nil {
		index -= 100 // openings sort first
	}
	return int(index)
}

// shape returns the compared part of the value of a key. Keys without a value are ignored.
func shape(key string, v any, path string) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any)
		for k, inner := range v {
			if inner != nil && k != "system_fingerprint" && (k != "prompt_logprobs") {
				m[k] = shape(k, inner, path)
			}
		}
		if key == "usage" && strings.Contains(path, "chat") {
			delete(m, "prompt_tokens") // chat templates differ
			delete(m, "total_tokens")
		}
		return m
	case []any:
		switch key {
		case "top_logprobs", "prompt_token_ids", "token_ids", "bytes", "text_offset", "token_logprobs":
			if key != "bytes" && (key != "prompt_token_ids" || !strings.Contains(path, "chat")) {
				return fmt.Sprintf("%s of %d", key, min(1, len(v))*len(v))
			}
			return key
		}
		all := make([]any, len(v))
		for i := range v {
			all[i] = shape(strings.TrimSuffix(key, "s"), v[i], path)
		}
		return all
	case float64:
		if key == "created" || key == "logprob" {
			return key
		}
	case string:
		switch key {
		case "id", "text", "content", "token":
			return key
		}
	}
	return v
}

// answer answers a request as a server of the model tiny. The engine generates the word "that".
func answer(t *testing.T, path string, body []byte) (status int, text string) {
	t.Helper()
	kind := openai.Completions
	if path == "/v1/chat/completions" {
		kind = openai.Chat
	}
	text, err := serve(t, kind, body, &drawing{script: openai.Tokenize("that")})
	if err != nil {
		e := openai.ErrorOf(err)
		return e.Status, string(e.AppendJSON(nil))
	}
	return http.StatusOK, text
}
