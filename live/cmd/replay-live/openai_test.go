package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/loadgen/tokenizer"
)

// A frontend and two workers, as processes, follow the parameters of a request or report an error. The same seed
// gives the same answer on both workers. A stop string also ends the work of the engine. A repeated prompt is cached.
// OpenAI's Python client, if installed, agrees.
func TestParametersOverProcesses(t *testing.T) {
	t.Parallel()
	c := newCompound(t)
	workers := []*member{c.worker("--speedup-ratio=20"), c.worker("--speedup-ratio=20")}
	front := c.front()
	awaitHealthy(t, front.HTTP)
	ask := func(parameters string) (status int, text, reason string, used [2]int, body string) {
		t.Helper()
		status, body = postJSON(t, front.HTTP+"/v1/completions", `{"model":"mocker-model",`+parameters+`}`)
		var a struct {
			Choices []struct {
				Text   string
				Reason string `json:"finish_reason"`
			}
			Usage struct {
				Completion int `json:"completion_tokens"`
				Details    struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if len(a.Choices) > 0 {
			text, reason = a.Choices[0].Text, a.Choices[0].Reason
		}
		return status, text, reason, [2]int{a.Usage.Completion, a.Usage.Details.Cached}, body
	}
	prompt := `"prompt":[` + strings.TrimSuffix(strings.Repeat("7,", 400), ",") + `]`
	_, first, _, _, _ := ask(prompt + `,"max_tokens":2000,"seed":3`)
	if n := len(strings.Fields(first)); n != 2000 {
		t.Fatalf("%d words for 2000 tokens", n)
	}
	for turn := range 2 { // first on the other worker, then on the first worker again
		_, again, _, used, body := ask(prompt + `,"max_tokens":5,"seed":3`)
		if !strings.HasPrefix(first, again) {
			t.Errorf("%q and then %q", first[:60], again)
		}
		if want := turn * 384; used[1] != want {
			t.Errorf("turn %d: %d tokens were cached, want %d: %.300s", turn, used[1], want, body)
		}
	}
	stop := strings.Join(strings.Fields(first)[20:22], " ")
	_, text, reason, used, body := ask(prompt + `,"max_tokens":2000,"seed":3,"stop":"` + stop + `"`)
	if at := strings.Index(first, stop); text != first[:at] || reason != "stop" || used[0] > 22 {
		t.Errorf("stopped at %q: %.300s", stop, body)
	}
	if n := workers[0].metric("dynamo_component_cancellation_total", "") + workers[1].metric("dynamo_component_cancellation_total", ""); n != 1 {
		t.Errorf("%v workers were stopped, want one", n)
	}
	if status, _, _, _, body := ask(prompt + `,"temperature":-1`); status != http.StatusBadRequest || !strings.Contains(body, `"param":"temperature"`) {
		t.Errorf("%d %s", status, body)
	}
	if n := front.metric("dynamo_frontend_refused_requests_total", `param="temperature"`); n != 1 {
		t.Errorf("%v refusals counted, want 1", n)
	}
	t.Run("client", func(t *testing.T) { runClient(t, front.HTTP) })
}

// With a model's tokenizer.json, the text of prompts is split into the model's tokens.
func TestTokenizerFlag(t *testing.T) {
	const file = "../../../loadgen/tokenizer/testdata/gpt2.json"
	counter, err := tokenizer.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	const text = "It was a bright morning; nobody answered."
	c := newCompound(t)
	c.worker()
	c.worker()
	front := c.front("--tokenizer=" + file)
	awaitHealthy(t, front.HTTP)
	want := fmt.Sprintf(`"prompt_tokens":%d,`, len(counter.Append(nil, text)))
	if status, body := postJSON(t, front.HTTP+"/v1/completions", `{"model":"mocker-model","max_tokens":2,"prompt":"`+text+`"}`); status != http.StatusOK || !strings.Contains(body, want) {
		t.Errorf("%d %s, want %s", status, body, want)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"frontend", "--tokenizer=no-such.json"}, strings.NewReader(""), &out, &errs); code != 1 || !strings.Contains(errs.String(), "--tokenizer: open no-such.json") {
		t.Errorf("exit %d, %s", code, &errs)
	}
}

// runClient runs OpenAI's Python client, with $REPLAY_OPENAI_PYTHON or python3.
func runClient(t *testing.T, url string) {
	t.Helper()
	python := optional.Program(t, cmp.Or(os.Getenv("REPLAY_OPENAI_PYTHON"), "python3"), "-c", "import openai")
	out, err := exec.Command(python, "testdata/openai_client.py", url).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "is content") {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("%s", out)
}

// awaitHealthy waits until a frontend has found two workers.
func awaitHealthy(t *testing.T, url string) {
	t.Helper()
	poll.Until(t, "two workers", func() bool {
		r, err := http.Get(url + "/health")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return r.StatusCode == http.StatusOK && strings.Contains(string(b), `"instances":2`)
	})
}

// postJSON posts a body and returns the status and the answer.
func postJSON(t *testing.T, url, body string) (int, string) {
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
