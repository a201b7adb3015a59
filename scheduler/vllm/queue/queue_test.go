package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler/vllm/queue"
)

// TestQueueEqualsPlain adds blocks, and removes them at the front and from the middle. The queue has the same blocks
// in the same order as a slice.
func TestQueueEqualsPlain(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		var q queue.Queue
		var plain []int32
		places := make([]uint32, 200)
		stands := func(b int32, place uint32) bool { return slices.Contains(plain, b) && places[b] == place }
		for step := range 3000 {
			b := r.Int32N(int32(20 + seed*3))
			at := slices.Index(plain, b)
			switch k := r.IntN(10); {
			case at < 0 && k < 7:
				if q.IsFull() {
					q.MakeRoom(stands, func(b int32, place uint32) { places[b] = place })
				}
				places[b] = q.Push(b)
				plain = append(plain, b)
			case at >= 0 && k < 5:
				plain = slices.Delete(plain, at, at+1)
			case k == 9 && len(plain) > 0:
				got, place := q.Pop()
				for !stands(got, place) {
					got, place = q.Pop()
				}
				if got != plain[0] {
					t.Fatalf("seed %d, step %d: block %d, want %d", seed, step, got, plain[0])
				}
				plain = plain[1:]
			}
		}
		var left []int32
		q.Visit(func(b int32, place uint32) {
			if stands(b, place) {
				left = append(left, b)
			}
		})
		if !slices.Equal(left, plain) {
			t.Fatalf("seed %d: %v are left, want %v", seed, left, plain)
		}
	}
}
