package online

import (
	"testing"

	"github.com/replay-llm/replay/router/policy"
)

// TestTextPolicy checks that a policy in a file works in real time and reads caches. Long prompts go to worker 0 and
// short prompts to worker 1, unless the other worker has them cached.
func TestTextPolicy(t *testing.T) {
	c := config(t, 2, line(0, 640, 2, ids(0, 10))+line(150, 128, 2, ids(20, 2))+line(300, 192, 2, ids(0, 3))+line(450, 192, 2, ids(30, 3))+line(600, 512, 2, ids(20, 8)))
	c.Router = &policy.Text{Name: "mine", Picker: policy.TakeHighest, Scorers: []policy.TextScorer{
		{Weight: 100, Score: "cached_blocks"},
		{Weight: 1, Cost: "request.input_tokens > 300 ? index : -index"},
	}}
	r := mustRun(t, c)
	for id, q := range r.Collector.Requests() {
		if want := []int{0, 1, 0, 1, 1}[id]; int(q.Worker) != want {
			t.Errorf("request %d went to worker %d, want %d", id, q.Worker, want)
		}
	}
}
