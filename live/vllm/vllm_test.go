package vllm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/httpfault"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/openai"
	"github.com/replay-llm/replay/live/vllm"
)

// complete sends a completion request and returns the text.
func complete(t *testing.T, url, body string) (text string) {
	t.Helper()
	r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		Choices []struct{ Text string }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || len(answer.Choices) == 0 {
		t.Fatalf("status %d: %v", r.StatusCode, err)
	}
	return answer.Choices[0].Text
}

// sample returns a sample of the metrics when no request is in flight.
func sample(t *testing.T, url, name string) float64 {
	t.Helper()
	v, ok := scrape(t, url).Samples[name]
	if !ok {
		t.Errorf("%s: no such sample", name)
	}
	return v
}

// A request that a stop string ended has the reason stop. A request of a client that disconnected has the reason
// abort. vLLM's server reports the same reasons.
func TestReasons(t *testing.T) {
	success := func(reason string) string {
		return `vllm:request_success_total{engine="0",finished_reason="` + reason + `",model_name="tiny"}`
	}
	url := serve(t, func(o *vllm.Options) { o.Tokenize, o.Engine.Engine.Speedup = openai.Tokenize, 1 })
	const prompt = `{"prompt":[5,6,7],"seed":4,"ignore_eos":true,`
	whole := strings.Fields(complete(t, url, prompt+`"max_tokens":100}`))
	stop := whole[40]
	cut := complete(t, url, prompt+`"max_tokens":400,"stop":"`+stop+`"}`)
	if !strings.HasPrefix(strings.Join(whole, " "), strings.TrimSpace(cut)) || strings.Contains(cut, stop) {
		t.Errorf("%q is not what comes before %q", cut, stop)
	}
	leaveEarly(t, url, prompt+`"max_tokens":400,"stream":true}`)
	poll.Until(t, "an aborted request is counted", func() bool { return sample(t, url, success("abort")) > 0 })
	for reason, want := range map[string]float64{"stop": 1, "abort": 1, "length": 1, "error": 0} {
		if n := sample(t, url, success(reason)); n != want {
			t.Errorf("%s: %v, want %v", reason, n, want)
		}
	}
}

// leaveEarly starts a stream and disconnects after the first event.
func leaveEarly(t *testing.T, url, body string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if line, err := bufio.NewReader(r.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: {") {
		t.Fatalf("%q: %v", line, err)
	}
}

// LoRA adapters are models with a parent. Each adapter and the base model have separate prefix caches. The metrics
// list the adapters in use.
func TestAdapters(t *testing.T) {
	url := serve(t, func(o *vllm.Options) { o.Engine.Adapters, o.MaxAdapters = []string{"sql", "chat"}, 2 })
	r, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || !strings.Contains(string(b), `"id":"sql","object":"model"`) || !strings.Contains(string(b), `"parent":"tiny"`) {
		t.Errorf("%s: %v", b, err)
	}
	hits := func() float64 { return sample(t, url, `vllm:prefix_cache_hits_total{engine="0",model_name="tiny"}`) }
	prompt := `"max_tokens":3,"ignore_eos":true,"prompt":` + ids([2]int{4, 300}) + `}`
	for i, ask := range []struct {
		model string
		hits  float64
	}{{"tiny", 0}, {"sql", 0}, {"sql", 256}, {"chat", 256}, {"chat", 512}, {"tiny", 512}} {
		complete(t, url, `{"model":"`+ask.model+`",`+prompt)
		if n := hits(); n != ask.hits && (i < 5 || n != ask.hits+256) { // the first blocks may have been evicted by then
			t.Errorf("request %d, for %s: %v tokens were hit so far, want %v", i, ask.model, n, ask.hits)
		}
	}
	for _, adapters := range []string{`running_lora_adapters="sql",waiting_lora_adapters=""`, `running_lora_adapters="chat",waiting_lora_adapters=""`, `running_lora_adapters="",waiting_lora_adapters=""`} {
		if at := sample(t, url, `vllm:lora_requests_info{max_lora="2",`+adapters+`}`); time.Since(time.Unix(int64(at), 0)) > time.Hour {
			t.Errorf("%s: at %v", adapters, at)
		}
	}
}

// With max_num_seqs 2, the third request waits, and the metrics count it as waiting.
func TestLoadIsTold(t *testing.T) {
	url := serve(t, func(o *vllm.Options) { o.Engine.Engine.Speedup = 1; o.Engine.Engine.MaxSeqs = 2 })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for i := range 3 {
		go func() {
			q, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(`{"ignore_eos":true,"max_tokens":450,"prompt":[`+string(rune('1'+i))+`]}`))
			q.Header.Set("Content-Type", "application/json")
			if r, err := http.DefaultClient.Do(q); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
		}()
	}
	var b string
	if !poll.Wait(func() bool {
		b = get(t, url+"/metrics")
		return strings.Contains(b, `vllm:num_requests_running{engine="0",model_name="tiny"} 2`) && strings.Contains(b, `vllm:num_requests_waiting{engine="0",model_name="tiny"} 1`) &&
			!strings.Contains(b, `vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0`+"\n") && get(t, url+"/load") == `{"server_load":3}`
	}) {
		t.Fatalf("never two running and one waiting: %s", b)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Requests above the queue limits get the status and the Retry-After of the faults. Rejected requests are counted
// under vLLM's metric name. Each choice of a request counts. A change of the faults at run time affects the next
// requests.
func TestFaults(t *testing.T) {
	url := serve(t, func(o *vllm.Options) {
		o.Engine.Engine.Speedup, o.Tokenize = 1, openai.Tokenize
		o.Faults = &httpfault.Faults{MaxQueuedRequests: 2, QueueStatus: http.StatusTooManyRequests, RetryAfterS: 9}
	})
	post := func(path, body string) (int, string, string) {
		t.Helper()
		r, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return r.StatusCode, r.Header.Get("Retry-After"), "broken"
		}
		return r.StatusCode, r.Header.Get("Retry-After"), string(b)
	}
	const path, two = "/v1/completions", `{"prompt":[1,2],"max_tokens":2,"n":2}`
	if status, retry, body := post(path, `{"prompt":[1,2],"max_tokens":2,"n":3}`); status != 429 || retry != "9" || !strings.Contains(body, "max_num_queued_reqs") {
		t.Errorf("three answers of two: %d, Retry-After %q: %s", status, retry, body)
	}
	for range 2 { // both slots are free again
		if status, _, body := post(path, two); status != http.StatusOK {
			t.Errorf("two answers of two: %d %s", status, body)
		}
	}
	rejected := func(reason string) float64 {
		return sample(t, url, `vllm:admission_rejections_total{model_name="tiny",reason="`+reason+`"}`)
	}
	if n := rejected("max_num_queued_reqs"); n != 1 {
		t.Errorf("%v rejections, want 1", n)
	}
	if status, _, body := post(httpfault.Path, `{"max_queued_tokens":2,"retry_after_s":4}`); status != http.StatusOK || !strings.Contains(body, `"max_queued_tokens":2`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body := post(path, two); status != http.StatusOK {
		t.Errorf("no tokens wait: %d %s", status, body)
	}
	post(httpfault.Path, `{"error_rates":{"529":1}}`)
	if status, retry, body := post(path, two); status != 529 || retry != "" || !strings.Contains(body, `"code":529`) {
		t.Errorf("%d %q %s", status, retry, body)
	}
	post(httpfault.Path, `{"cut_rate":1,"cut_after_tokens":3}`)
	if _, _, body := post(path, `{"prompt":[1,2],"max_tokens":20,"ignore_eos":true,"stream":true}`); body != "broken" {
		t.Errorf("the stream is whole: %s", body)
	}
	text := get(t, url+"/metrics")
	for _, kind := range []string{"error", "cut"} {
		if want := `replay_faults_injected_total{fault="` + kind + `"} 1`; !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// A request above the limit of queued tokens gets 503. Requests require one of the API keys.
func TestQueuedTokensAndKeys(t *testing.T) {
	url := serve(t, func(o *vllm.Options) {
		o.Engine.Engine.Speedup, o.APIKeys = 0.01, []string{"one", "two"}
		o.Faults = &httpfault.Faults{MaxQueuedTokens: 100, QueueStatus: http.StatusServiceUnavailable, RetryAfterS: 1}
	})
	ask := func(key string) int {
		q, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/completions", strings.NewReader(`{"max_tokens":1,"prompt":`+ids([2]int{3, 200})+`}`))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", "Bearer "+key)
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	if got := ask("three"); got != http.StatusUnauthorized {
		t.Errorf("a wrong key: %d", got)
	}
	poll.Until(t, "one of two requests waits", func() bool {
		codes := make(chan int, 2)
		for _, key := range []string{"one", "two"} {
			go func() { codes <- ask(key) }()
		}
		return <-codes+<-codes == http.StatusOK+http.StatusServiceUnavailable
	})
}
