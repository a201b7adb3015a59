package vllm_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
)

// pathsFile contains the responses of vLLM's server at each path.
const pathsFile = "testdata/vllm-0.32.0.paths.json"

// exchange is a request and its response.
type exchange struct {
	Method, Path, Kind, Body string
	Status                   int
	Allow                    string
	Answer                   any // JSON without the values that differ between two servers
}

// exchanges returns the requests, without responses.
func exchanges() (all []exchange) {
	const kind = "application/json"
	for _, path := range []string{"/health", "/ping", "/version", "/load", "/v1/models", "/v1/models/tiny", "/nope", "/", "/live", "/tokenize", "/detokenize", "/v1/completions", "/v1/chat/completions", "/metrics/", "/kv_event_sources"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"} {
			if method == "POST" && (strings.Contains(path, "tokenize") || strings.Contains(path, "completions")) || path == "/metrics/" && method != "GET" {
				continue
			}
			all = append(all, exchange{Method: method, Path: path})
		}
	}
	post := func(path, kind string, bodies ...string) {
		for _, body := range bodies {
			all = append(all, exchange{Method: "POST", Path: path, Kind: kind, Body: body})
		}
	}
	post("/tokenize", kind, `{"model":"tiny","prompt":"t1"}`, `{"prompt":"t1"}`, `{"prompt":"t1","return_token_strs":true}`, `{"model":"none","prompt":"t1"}`, `{"model":"tiny"}`, `{}`,
		`{"model":"tiny","prompt":5}`, `{"model":"tiny","prompt":""}`, `{"prompt":null}`, `{"model":"tiny","prompt":["a","b"]}`, `[]`, ``, `{"prompt":"t1","add_special_tokens":"maybe"}`)
	post("/detokenize", kind, `{"model":"tiny","tokens":[1,2]}`, `{"tokens":[1]}`, `{"tokens":[-1]}`, `{"model":"tiny"}`, `{"model":"x","tokens":[1]}`, `{"tokens":"a"}`, `{"tokens":[]}`, `{"tokens":["a"]}`, `{"tokens":[1.5]}`)
	for _, path := range []string{"/tokenize", "/detokenize", "/v1/completions", "/v1/chat/completions"} {
		post(path, "text/plain", `{"model":"tiny","prompt":"t1"}`)
		post(path, "", `{"model":"tiny","prompt":"t1"}`)
		post(path, "application/json; charset=utf-8", `{"model":"none","prompt":"t1","messages":[{"role":"user","content":"t1"}],"tokens":[1]}`)
	}
	post("/v1/completions", kind, `{"prompt":"t1","max_tokens":1}`, `{"model":"","prompt":"t1","max_tokens":1}`)
	return all
}

// ask sends the request to a server and stores the response.
func (e *exchange) ask(t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequest(e.Method, url+e.Path, strings.NewReader(e.Body))
	if err != nil {
		t.Fatal(err)
	}
	if e.Kind != "" {
		r.Header.Set("Content-Type", e.Kind)
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	e.Status, e.Allow, e.Answer = a.StatusCode, a.Header.Get("Allow"), nil
	if len(b) > 0 && strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(b, &e.Answer); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	}
	e.Answer = mask("", e.Answer)
}

// mask removes values that differ between two servers, and keys without a value.
func mask(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, one := range v {
			if one == nil || k == "system_fingerprint" || k == "prompt_tokens_details" {
				delete(v, k)
			} else {
				v[k] = mask(k, one)
			}
		}
	case []any:
		if key == "tokens" || key == "token_strs" {
			return float64(len(v))
		}
		for i, one := range v {
			v[i] = mask("", one)
		}
	default:
		switch key {
		case "id", "created", "root", "version", "text", "prompt":
			return "something"
		}
	}
	return v
}

// takeMessage removes the error message from an answer and returns it.
func takeMessage(answer any) string {
	all, _ := answer.(map[string]any)
	e, _ := all["error"].(map[string]any)
	message, _ := e["message"].(string)
	delete(e, "message")
	return message
}

// Every path returns the status, the headers and the shape of vLLM's server. Errors have the same types and
// parameters. Only the error messages differ.
func TestPathsEqualVLLM(t *testing.T) {
	if *vllmServer != "" && *rewrite {
		all := exchanges()
		for i := range all {
			all[i].ask(t, "http://"+*vllmServer)
		}
		b, err := json.MarshalIndent(all, "", " ")
		if err == nil {
			err = os.WriteFile(pathsFile, append(b, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(pathsFile)
	var all []exchange
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil || len(all) != len(exchanges()) {
		t.Fatalf("%d of %d requests are recorded: %v", len(all), len(exchanges()), err)
	}
	urls := []string{serve(t)}
	if *vllmServer != "" {
		urls = append(urls, "http://"+*vllmServer)
	}
	messages := make([]string, len(all))
	for i := range all {
		messages[i] = takeMessage(all[i].Answer)
	}
	for i, url := range urls {
		for j, want := range all {
			got := want
			got.ask(t, url)
			if message := takeMessage(got.Answer); i == 0 && messages[j] != "" && (message == "" || message == messages[j]) {
				t.Errorf("%s %s %s: %q is no sentence of this program", want.Method, want.Path, want.Body, message)
			}
			if !reflect.DeepEqual(got, want) {
				g, _ := json.Marshal(got)
				w, _ := json.Marshal(want)
				t.Errorf("%s\ngot  %s\nwant %s", url, g, w)
			}
		}
	}
}
