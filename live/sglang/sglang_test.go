package sglang_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/listen/listentest"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/sglang"
	"github.com/replay-llm/replay/live/standalone"
	"github.com/replay-llm/replay/live/telemetry/telemetrytest"
	"github.com/replay-llm/replay/replay/engineargs"
)

// serve starts a server and returns its URL.
func serve(t *testing.T, change ...func(*standalone.Options)) string {
	t.Helper()
	args, err := engineargs.Parse([]byte(`{"engine_type": "sglang", "block_size": 16, "num_gpu_blocks": 100, "speedup_ratio": 50}`), engineargs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := standalone.Options{Engine: mocker.Options{Model: "tiny", ContextLength: 512, Engine: args}, Version: "0.5.23"}
	for _, f := range change {
		f(&o)
	}
	s, err := sglang.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + listentest.Serve(t, s)
}

// ask sends a request to a URL: POST if there is a body, else GET.
func ask(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	q, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
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

// told is a response of /generate.
type told struct {
	Text string `json:"text"`
	IDs  []int  `json:"output_ids"`
	Meta struct {
		ID     string `json:"id"`
		Finish *struct {
			Type    string
			Length  int
			Matched string
		} `json:"finish_reason"`
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Cached     int `json:"cached_tokens"`
	} `json:"meta_info"`
	Index *int
}

const prompt = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]"

// The response is an object for one prompt, and a list for several. The second request for a prompt is cached. Each
// event of a stream has the whole text of the answer so far.
func TestGenerate(t *testing.T) {
	url := serve(t)
	var one told
	status, body := ask(t, url+"/generate", `{"input_ids":`+prompt+`,"sampling_params":{"max_new_tokens":6,"temperature":0,"ignore_eos":true},"rid":"mine"}`)
	if err := json.Unmarshal([]byte(body), &one); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if one.Meta.ID != "mine" || one.Meta.Prompt != 20 || one.Meta.Completion != 6 || len(one.IDs) != 6 || len(strings.Fields(one.Text)) != 6 ||
		one.Meta.Finish == nil || one.Meta.Finish.Type != "length" || one.Meta.Finish.Length != 6 || one.Meta.Cached != 0 {
		t.Errorf("%s", body)
	}
	var many []told
	_, body = ask(t, url+"/generate", `{"input_ids":[`+prompt+`,[5]],"sampling_params":{"max_new_tokens":2,"temperature":0}}`)
	if err := json.Unmarshal([]byte(body), &many); err != nil || len(many) != 2 || many[0].Meta.Cached != 16 || many[1].Meta.Prompt != 1 || !strings.HasPrefix(one.Text, many[0].Text) {
		t.Errorf("%s: %v", body, err)
	}
	_, body = ask(t, url+"/generate", `{"input_ids":`+prompt+`,"stream":true,"sampling_params":{"max_new_tokens":6,"temperature":0}}`)
	events := strings.Split(strings.TrimSpace(body), "\n\n")
	if len(events) != 7 || events[6] != "data: [DONE]" {
		t.Fatalf("%d events: %s", len(events), body)
	}
	for i, event := range events[:6] {
		var so told
		if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &so); err != nil || so.Meta.Completion != i+1 || !strings.HasPrefix(one.Text, so.Text) || (so.Meta.Finish != nil) != (i == 5) {
			t.Errorf("event %d: %s: %v", i, event, err)
		}
	}
	stop := strings.Fields(one.Text)[3]
	var cut told
	_, body = ask(t, url+"/generate", `{"input_ids":`+prompt+`,"sampling_params":{"max_new_tokens":6,"temperature":0,"stop":"`+stop+`"}}`)
	if err := json.Unmarshal([]byte(body), &cut); err != nil || cut.Meta.Finish.Type != "stop" || cut.Meta.Finish.Matched != stop || strings.Contains(cut.Text, stop) {
		t.Errorf("%s: %v", body, err)
	}
}

// Requests that are not valid are rejected with an error message.
func TestGenerateRefuses(t *testing.T) {
	url := serve(t)
	for body, want := range map[string]string{
		`{}`:                                 "one is required",
		`{"text":"a","input_ids":[1]}`:       "mutually exclusive",
		`{"text":"a","return_logprob":true}`: "return_logprob",
		`{"text":"a","sampling_params":{"temperature":-1}}`:     "temperature",
		`{"text":"a","sampling_params":{"max_new_tokens":600}}`: "600",
		`{"text":5}`: "prompt", `{`: "body", `[]`: "body", `{"input_ids":[-1]}`: "must be at least 0",
	} {
		if status, answer := ask(t, url+"/generate", body); status != http.StatusBadRequest || !strings.Contains(answer, `{"error":{"message":`) || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %q", body, status, answer, want)
		}
	}
}

// The paths that gateways request work, and the metrics count requests.
func TestPaths(t *testing.T) {
	url := serve(t)
	for path, want := range map[string]string{
		"/health": "", "/health_generate": "", "/get_model_info": `"model_path":"tiny"`, "/model_info": `"is_generation":true`, "/get_server_info": `"max_total_num_tokens":1600`,
		"/server_info": `"version":"0.5.23"`, "/v1/models": `"owned_by":"sglang"`,
	} {
		if status, answer := ask(t, url+path, ""); status != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", path, status, answer, want)
		}
	}
	if status, _ := ask(t, url+"/nope", ""); status != http.StatusNotFound {
		t.Errorf("an unknown path: %d", status)
	}
	for range 2 {
		if status, answer := ask(t, url+"/v1/completions", `{"prompt":`+prompt+`,"max_tokens":5}`); status != http.StatusOK {
			t.Errorf("%d %s", status, answer)
		}
	}
	const labels = `{engine_type="unified",model_name="tiny",moe_ep_rank="0",pp_rank="0",tp_rank="0"}`
	want := map[string]float64{
		"prompt_tokens_total" + labels: 41, "generation_tokens_total" + labels: 11, "num_requests_total" + labels: 3, "num_aborted_requests_total" + labels: 0,
		`cached_tokens_total{cache_source="device",` + labels[1:]: 16, "max_total_num_tokens" + labels: 1600, "num_running_reqs" + labels: 0,
		"time_to_first_token_seconds" + labels + " count": 3, "inter_token_latency_seconds" + labels + " count": 8, "e2e_request_latency_seconds" + labels + " count": 3,
	}
	var wrong []string
	var text string
	if !poll.Wait(func() bool {
		_, text = ask(t, url+"/metrics", "")
		m, err := telemetrytest.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		wrong = wrong[:0]
		for name, n := range want {
			if have, ok := m.Samples["sglang:"+name]; !ok || have != n {
				wrong = append(wrong, name)
			}
		}
		return len(wrong) == 0
	}) {
		t.Fatalf("%v: %s", wrong, text)
	}
}

// With --max-queued-requests, requests above that number of waiting requests get SGLang's 503 and are counted as
// aborted. Running requests do not count.
func TestQueueLimit(t *testing.T) {
	url := serve(t, func(o *standalone.Options) {
		o.Engine.MaxWaiting, o.Engine.Engine.Speedup, o.Engine.Engine.SGLang.MaxRunning = 2, 1, 1
	})
	const long = `{"input_ids":[1,2,3],"sampling_params":{"max_new_tokens":300,"ignore_eos":true}}`
	done := make(chan int, 3)
	send := func() { status, _ := ask(t, url+"/generate", long); done <- status }
	metric := func(line string) func() bool {
		return func() bool { _, text := ask(t, url+"/metrics", ""); return strings.Contains(text, line) }
	}
	go send()
	poll.Until(t, "a request runs", metric("sglang:num_running_reqs{"+labels+"} 1\n"))
	go send()
	go send()
	poll.Until(t, "two wait", metric("sglang:num_queue_reqs{"+labels+"} 2\n"))
	for path, body := range map[string]string{"/generate": long, "/v1/completions": `{"model":"tiny","prompt":[1,2],"max_tokens":3}`} {
		status, answer := ask(t, url+path, body)
		if want := `{"object":"error","message":"the queue of the engine is full: retry later, or ask another instance","type":"503","param":null,"code":503}`; status != 503 || strings.TrimSpace(answer) != want {
			t.Errorf("%s: %d %s, want 503 %s", path, status, answer, want)
		}
	}
	if !metric("sglang:num_aborted_requests_total{" + labels + "} 2\n")() {
		t.Error("the rejected requests are not counted")
	}
	for range 3 {
		if status := <-done; status != 200 {
			t.Errorf("status %d of a request that fits", status)
		}
	}
}

// labels are the labels of the engine's metrics.
const labels = `engine_type="unified",model_name="tiny",moe_ep_rank="0",pp_rank="0",tp_rank="0"`
