package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
)

// A frontend stops following the KV events of a worker with too many blocks. The frontend logs and counts this once,
// and still calls the worker.
func TestRoguePublisher(t *testing.T) {
	c := newCompound(t)
	c.worker("--speedup-ratio=100", "--block-size=4")
	front := c.front("--router=kv", "--kv-max-blocks=100")
	awaitModel(t, front, "mocker-model")
	for i := range 3 {
		body := fmt.Sprintf(`{"model":"mocker-model","max_tokens":2,"prompt":[%d%s]}`, i, strings.Repeat(",7", 2000))
		r, err := http.Post(front.HTTP+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("request %d: %s", i, r.Status)
		}
		poll.Until(t, "it is cut off", func() bool { return front.metric("replay_kv_publishers_cut_total", `limit="blocks"`) == 1 })
	}
	front.end()
	if said := front.err.String(); strings.Count(said, "is followed no more") != 1 || strings.Count(said, "\n") != 1 {
		t.Errorf("it says %s", said)
	}
}
