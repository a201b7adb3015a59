package vllm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/internal/vllmpaths"
	"github.com/replay-llm/replay/live/vllm"
)

// post posts a body and returns the status and the body of the response.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// expect posts a body and checks the status and parts of the response.
func expect(t *testing.T, url, body string, status int, parts ...string) {
	t.Helper()
	got, answer := post(t, url, body)
	for _, part := range parts {
		if got != status || !strings.Contains(answer, part) {
			t.Errorf("%s %s: %d %s, want %d and %s", url, body, got, answer, status, part)
		}
	}
}

// The engine computes embeddings and responses, and its metrics count them.
func TestEmbeddingsAndResponses(t *testing.T) {
	url := serve(t)
	expect(t, url+"/v1/embeddings", `{"model":"tiny","input":["t1 t2","t3"],"dimensions":2}`, 200, `"object":"embedding"`, `"index":1`, `"prompt_tokens":3`, `"model":"tiny"`)
	_, one := post(t, url+"/v1/embeddings", `{"input":"t1 t2","encoding_format":"base64"}`)
	_, two := post(t, url+"/v1/embeddings", `{"input":["t1 t2"],"encoding_format":"base64"}`)
	if one, two = one[strings.Index(one, `"data"`):], two[strings.Index(two, `"data"`):]; one != two || len(one) < 5000 {
		t.Errorf("%.100s\n%.100s", one, two)
	}
	expect(t, url+"/v1/embeddings", `{"model":"none","input":"t1"}`, 404, "is not served")
	expect(t, url+"/v1/embeddings", `{"input":"t1","dimensions":0}`, 400, "must be 1 to 8192")
	expect(t, url+"/v1/embeddings", `{"input":[]}`, 400, "input: must be")
	expect(t, url+"/v1/responses", `{"input":"t1 t2","instructions":"t3","max_output_tokens":4}`, 200, `"status":"incomplete"`, `"output_tokens":4`, `"type":"output_text"`, `"reason":"max_output_tokens"`)
	expect(t, url+"/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_text","text":"t1"}]}]}`, 200, `"status":"completed"`, `"role":"assistant"`)
	expect(t, url+"/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`, 400, "input_image")
	expect(t, url+"/v1/responses", `{"input":"t1","previous_response_id":"x"}`, 400, "not stored")
	_, stream := post(t, url+"/v1/responses", `{"input":"t1","max_output_tokens":3,"stream":true}`)
	at := 0
	for _, kind := range []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete",
	} {
		next := strings.Index(stream[at:], "event: "+kind+"\n")
		if next < 0 {
			t.Fatalf("no %s in order in %s", kind, stream)
		}
		at += next
	}
	if n := sample(t, url, `vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"}`); n != 6 {
		t.Errorf("%v requests of the engine, want 6", n)
	}
}

// The paths of development mode exist only in that mode, as in vLLM. The paths of development mode require no API
// key.
func TestDevMode(t *testing.T) {
	keyed := func(o *vllm.Options) { o.APIKeys = []string{"secret"} }
	url := serve(t, keyed)
	expect(t, url+"/sleep", "", 404, `{"detail":"Not Found"}`)
	expect(t, url+"/wake_up", "", 404, `{"detail":"Not Found"}`)
	url = serve(t, keyed, func(o *vllm.Options) { o.DevMode = true })
	expect(t, url+"/sleep", "", 200, `{"status":"sleeping","level":1}`)
	expect(t, url+"/wake_up", "", 200, `{"status":"awake","tags":null}`)
	expect(t, url+"/v1/completions", `{"prompt":[5],"max_tokens":2}`, 401, "Unauthorized")
}

// A server that is put to sleep ends its requests in flight with the reason abort. The server answers later requests
// after the wake-up.
func TestSleep(t *testing.T) {
	url := serve(t, func(o *vllm.Options) { o.Engine.Engine.Speedup, o.DevMode = 1, true })
	const running = `vllm:num_requests_running{engine="0",model_name="tiny"} 1`
	const long = `{"prompt":[5,6,7],"max_tokens":400,"ignore_eos":true}`
	answers := make(chan string, 2)
	ask := func() { _, answer := post(t, url+"/v1/completions", long); answers <- answer }
	go ask()
	poll.Until(t, "the request runs", func() bool { return strings.Contains(get(t, url+"/metrics"), running) })
	expect(t, url+"/sleep?level=2", "", 200, `{"status":"sleeping","level":2}`)
	if a := <-answers; !strings.Contains(a, `"finish_reason":"abort"`) {
		t.Error(a)
	}
	go func() {
		_, answer := post(t, url+"/v1/completions", `{"prompt":[5],"max_tokens":2}`)
		answers <- answer
	}()
	select {
	case a := <-answers:
		t.Errorf("answered while asleep: %s", a)
	case <-time.After(200 * time.Millisecond):
	}
	expect(t, url+"/wake_up?tags=weights", "", 200, `{"status":"sleeping","tags":["weights"]}`)
	expect(t, url+"/wake_up", "", 200, `{"status":"awake","tags":null}`)
	if a := <-answers; !strings.Contains(a, `"completion_tokens":2`) {
		t.Error(a)
	}
	expect(t, url+"/sleep?level=3", "", 400, "must be 0 to 2")
}

// Adapters are loaded and unloaded at run time. Each adapter is a model with a separate prefix cache.
func TestAdaptersAtRunTime(t *testing.T) {
	url := serve(t, func(o *vllm.Options) { o.MaxAdapters = 2 })
	const ask = `{"model":"sql","prompt":"t1","max_tokens":1}`
	expect(t, url+"/v1/completions", ask, 404, "is not served")
	expect(t, url+"/v1/load_lora_adapter", `{"lora_name":"sql","lora_path":"/x"}`, 200, "the adapter sql is loaded")
	expect(t, url+"/v1/load_lora_adapter", `{"lora_name":"sql","lora_path":"/x"}`, 400, "load_inplace")
	expect(t, url+"/v1/load_lora_adapter", `{"lora_name":"tiny","lora_path":"/x"}`, 400, "name of the model")
	expect(t, url+"/v1/load_lora_adapter", `{"lora_name":"sql"}`, 400, "are required")
	expect(t, url+"/v1/completions", ask, 200, `"model":"sql"`)
	expect(t, url+"/v1/unload_lora_adapter", `{"lora_name":"sql"}`, 200, "the adapter sql is not loaded any more")
	expect(t, url+"/v1/unload_lora_adapter", `{"lora_name":"sql"}`, 404, "not loaded")
	expect(t, url+"/v1/completions", ask, 404, "is not served")
	expect(t, serve(t)+"/v1/load_lora_adapter", `{"lora_name":"sql","lora_path":"/x"}`, 404, "Not Found")
}

// With PlausibleTools, the engine generates the tokens of a tool call. Without PlausibleTools, requests with tools
// are rejected.
func TestPlausibleTools(t *testing.T) {
	const ask = `{"messages":[{"role":"user","content":"t1"}],"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["a"],"properties":{"a":{"enum":[7]}}}}}]`
	url := serve(t, func(o *vllm.Options) { o.PlausibleTools = true })
	expect(t, url+"/v1/chat/completions", ask+"}", 200, `"finish_reason":"tool_calls"`, `{\"a\": 7}`, `"name":"f"`, `"completion_tokens":2`)
	_, stream := post(t, url+"/v1/chat/completions", ask+`,"stream":true}`)
	if !strings.Contains(stream, `"arguments":"{\"a\"`) || !strings.Contains(stream, `"finish_reason":"tool_calls"`) {
		t.Error(stream)
	}
	expect(t, url+"/v1/responses", `{"input":"t1","tool_choice":"required","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}`, 200, `"type":"function_call"`, `"arguments":"{`)
	expect(t, url+"/v1/completions", `{"prompt":"t1","structured_outputs":{"json":{"const":{"b":[1,2]}}}}`, 200, `"text":"{\"b\":[1,2]}"`)
	expect(t, serve(t)+"/v1/chat/completions", ask+"}", 400, "not supported")
}

// A prefill worker returns the keys of vLLM's NIXL connector, and a decode worker accepts them.
func TestTransferParams(t *testing.T) {
	url := serve(t, func(o *vllm.Options) {
		o.Transfer = vllmpaths.NewTransfer(`{"kv_connector":"NixlConnector"}`, "10.0.0.1", 1)
	})
	prompt := `{"prompt":"` + strings.Repeat("t1 ", 200) + `","max_tokens":%d,"kv_transfer_params":%s}`
	_, text := post(t, url+"/v1/completions", fmt.Sprintf(prompt, 1, `{"do_remote_decode":true,"do_remote_prefill":false}`))
	var answer struct {
		Params json.RawMessage `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"do_remote_prefill":true`, `"remote_block_ids":[[1,2]]`, `"remote_host":"10.0.0.1"`, `"remote_port":5601`, `"remote_num_tokens":200`, `"remote_request_id":"cmpl-`, `"transfer_mode":"pull"`} {
		if !strings.Contains(string(answer.Params), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	expect(t, url+"/v1/completions", fmt.Sprintf(prompt, 3, answer.Params), 200, `"completion_tokens":3`)
	expect(t, url+"/v1/completions", fmt.Sprintf(prompt, 3, `{"do_remote_prefill":true}`), 400, "remote_engine_id")
}
