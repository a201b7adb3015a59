package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/poll"
)

// Without etcd, workers have the addresses of --static or a shared subject. A frontend and a replay call these
// workers.
func TestStaticDiscovery(t *testing.T) {
	t.Parallel()
	c := newCompound(t)
	c.servers.KillEtcd()
	const at, both = "--static=dynamo.backend.generate=", "--static=dynamo.backend.generate=one@1,dynamo.backend.generate=two@2"
	for _, run := range []struct {
		own    []string // flags of each worker
		caller []string
	}{
		{own: []string{"", ""}},
		{own: []string{at + "one@1", at + "two@2"}, caller: []string{both}},
	} {
		var workers []*member
		for _, own := range run.own {
			args := []string{"--discovery=static", "--model-name=m", "--speedup-ratio=10"}
			if own != "" {
				args = append(args, own)
			}
			workers = append(workers, c.worker(args...))
		}
		f := c.front(append([]string{"--discovery=static", "--static-model=m"}, run.caller...)...)
		poll.Until(t, "a model", func() bool { return strings.Contains(f.get("/health"), `"healthy"`) })
		for i := range 8 {
			r, err := http.Post(f.HTTP+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"abc","max_tokens":4}`))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(r.Body)
			r.Body.Close()
			if r.StatusCode != http.StatusOK || !strings.Contains(string(b), `"completion_tokens":4`) {
				t.Errorf("request %d: %d %s", i, r.StatusCode, b)
			}
		}
		var out, errs bytes.Buffer
		trace := shortTrace(t, "short.jsonl", 6)
		args := append([]string{"trace", trace, "--mode", "cluster", "--output", "json", "--discovery=static", "--response-host=127.0.0.1", "--nats", c.servers.NATSURL()}, run.caller...)
		if code := replayFlat(args, &out, &errs); code != cli.ExitDone || !strings.Contains(out.String(), `"completed_requests": 6`) {
			t.Errorf("%v: exit %d, %s, %.300s", args, code, &errs, &out)
		}
		if n := sumOf(workers, "dynamo_component_requests_total"); n < 14 {
			t.Errorf("%v requests at the workers, want 14", n)
		}
		for _, m := range append(workers, f) {
			m.end()
		}
	}
	var out, errs bytes.Buffer
	code := replayFlat([]string{"trace", shortTrace(t, "short.jsonl", 2), "--mode", "cluster", "--spawn", "2", "--discovery=static"}, &out, &errs)
	if code != cli.ExitUsage || !strings.Contains(errs.String(), "--spawn requires --discovery etcd") {
		t.Errorf("--spawn: exit %d, %s", code, &errs)
	}
	if out.Len() > 0 {
		t.Error(fmt.Sprint("it printed ", &out))
	}
}

// replayFlat runs the program without input.
func replayFlat(args []string, out, errs *bytes.Buffer) int {
	return run(args, strings.NewReader(""), out, errs)
}
