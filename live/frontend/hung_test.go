package frontend_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
)

// stuck blocks the scheduler of a mocker at its first admission until release is closed.
type stuck struct{ release chan struct{} }

func (s stuck) Admitted(int, int)         { <-s.release }
func (s stuck) Passed(*telemetry.Pass)    {}
func (s stuck) Prefilled(int, int)        {}
func (s stuck) Over(*mocker.RequestFacts) {}
func (s stuck) stall(o *mocker.Options)   { o.Watch, o.Stall = s, 200*time.Millisecond }
func hasty(c *drt.Config)                 { c.Heartbeat = 250 * time.Millisecond }
func (f *found) moved(begun string) float64 {
	return f.metrics.Value("replay_moved_requests_total", map[string]string{"begun": begun})
}

// The engine of one of two workers hangs. The other worker answers the requests of the hung worker, each is counted
// once, and later requests reach only the other worker.
func TestHungEngine(t *testing.T) {
	hub, s := drttest.Start(t), stuck{make(chan struct{})}
	hung, well := work(t, hub, engine.Aggregated, s.stall), work(t, hub, engine.Aggregated)
	t.Cleanup(sync.OnceFunc(func() { close(s.release) }))
	f := discover(t, hub, route.Options{}, hasty)
	f.await(t, 2)
	const requests, tokens = 12, 5
	ask := func() {
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() {
				_, text := f.post(t, "/v1/completions", fmt.Sprintf(`{"model": %q, "stream": true, "prompt": [%d, 2, 3], "max_tokens": %d}`, mocker.DefaultModel, i, tokens))
				if ends, n := strings.Count(text, "data: [DONE]"), strings.Count(text, `"text":`); ends != 1 || n != tokens || strings.Contains(text, `"error":`) {
					t.Errorf("request %d: %d ends, %d tokens: %s", i, ends, n, text)
				}
			})
		}
		all.Wait()
	}
	ask()
	sent := func(p *party) float64 { return p.metrics.Value("dynamo_component_requests_total", nil) }
	got := sent(hung)
	if got == 0 || f.moved("false") != got || sent(well) != requests || f.moved("true") != 0 {
		t.Errorf("the hung worker had %v requests, the other %v, and %v moved, %v of them after a token; want all of the hung worker's to move and %d at the other",
			got, sent(well), f.moved("false"), f.moved("true"), requests)
	}
	poll.Until(t, "the engine counts as hung", func() bool { return !hung.mock.Alive() })
	ask()
	if n := sent(well); n != 2*requests || f.moved("false") != got {
		t.Errorf("the other worker had %v requests, and %v moved, want %d and %v: the hung one rejects them", n, f.moved("false"), 2*requests, got)
	}
}
