//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
)

// One of two worker processes is stopped before its requests have a token. The frontend notices the missing
// heartbeats. The other worker answers these requests, and each is counted once. The stopped worker serves again when
// it continues.
func TestHungWorker(t *testing.T) {
	t.Parallel()
	c := newCompound(t)
	workers := []*member{c.worker("--speedup-ratio=0.02"), c.worker("--speedup-ratio=0.02")}
	f := c.front("--heartbeat=400ms")
	poll.Until(t, "two workers", func() bool { return strings.Contains(f.get("/health"), `"instances":2`) })
	const requests, tokens = 8, 2
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			body := fmt.Sprintf(`{"model":"mocker-model","stream":true,"max_tokens":%d,"prompt":[%s%d]}`, tokens, strings.Repeat("1,", 3000), i)
			answer, err := http.Post(f.HTTP+"/v1/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			b, err := io.ReadAll(answer.Body)
			if text := string(b); err != nil || strings.Count(text, "data: [DONE]") != 1 || strings.Count(text, `"text":`) != tokens || strings.Contains(text, `"error":`) {
				t.Errorf("request %d: status %d, %v: %s", i, answer.StatusCode, err, text)
			}
		})
	}
	inFlight := func(w *member) int { return int(w.metric("dynamo_component_inflight_requests", "")) }
	poll.Until(t, "the requests at the workers", func() bool { return inFlight(workers[0])+inFlight(workers[1]) == requests })
	had := inFlight(workers[0])
	workers[0].signal(syscall.SIGSTOP)
	all.Wait()
	moved := func(begun string) int { return int(f.metric("replay_moved_requests_total", `begun="`+begun+`"`)) }
	if had == 0 || moved("false") != had || moved("true") != 0 {
		t.Errorf("%d requests moved before a token and %d after one, want %d and 0", moved("false"), moved("true"), had)
	}
	workers[0].signal(syscall.SIGCONT)
	poll.Until(t, "the worker is idle", func() bool { return inFlight(workers[0]) == 0 })
	poll.Until(t, "it serves", func() bool { return f.answers() == http.StatusOK && !workers[0].busy() })
}
