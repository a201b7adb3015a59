package router

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// TestQueueOrder checks that held requests are returned by key, then in order of arrival.
func TestQueueOrder(t *testing.T) {
	r := sim.NewRand(1, "queue")
	var q queue
	var s scores
	s.grow(4)
	keys := map[sim.RequestID]float64{}
	next := sim.RequestID(0)
	for step := range 2000 {
		if len(q.heap) == 0 || step < 1000 && r.IntN(3) > 0 {
			keys[next] = float64(r.IntN(5))
			s.raise(sim.WorkerID(next%4), int32(next)+1)
			q.push(&sim.Request{ID: next}, keys[next], &s)
			s.clear()
			next++
			continue
		}
		want := q.heap[0].Value.request.ID
		for id := range keys {
			if keys[id] > keys[want] || keys[id] == keys[want] && id < want {
				t.Fatalf("request %d with key %v is first, but %d has key %v", want, keys[want], id, keys[id])
			}
		}
		got := q.pop(&s).ID
		alone := [4]int32{}
		alone[got%4] = int32(got) + 1
		if got != want || !slices.Equal(s.by, alone[:]) {
			t.Fatalf("popped %d with overlaps %v, want %d", got, s.by, want)
		}
		s.clear()
		delete(keys, got)
	}
}
