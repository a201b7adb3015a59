package heap

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// A heap returns the same items as a sorted list after any sequence of operations.
func TestHeapIsASortedList(t *testing.T) {
	type item = Item[float64, int32, string]
	order := func(a, b item) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Tie, b.Tie)) }
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		var h Heap[float64, int32, string]
		var want []item
		for i := range int32(2000) {
			switch n := r.IntN(20); {
			case n < 9:
				x := item{Key: float64(r.IntN(30)), Tie: i, Value: string(rune('a' + n))}
				h.Push(x.Key, x.Tie, x.Value)
				want = append(want, x)
			case n == 9 && len(want) > 0:
				want[0].Key += float64(r.IntN(9))
				h.SetFirst(want[0].Key, want[0].Tie)
			case n == 10 && r.IntN(5) == 0:
				cut := int32(r.IntN(3))
				keep := func(x item) bool { return x.Tie%3 != cut }
				h.Filter(keep)
				want = slices.DeleteFunc(want, func(x item) bool { return !keep(x) })
			case len(want) > 0:
				if got := h.Pop(); got != want[0] {
					t.Fatalf("seed %d, step %d: %v left, want %v", seed, i, got, want[0])
				}
				want = want[1:]
			}
			slices.SortFunc(want, order)
			if len(h) != len(want) || len(h) > 0 && h[0] != want[0] || i%50 == 0 && !slices.Equal(h.Sorted(), want) {
				t.Fatalf("seed %d, step %d: %d items, want %d, or in another order", seed, i, len(h), len(want))
			}
		}
	}
}

// A heap keeps no reference to removed items.
func TestHeapForgetsWhatLeft(t *testing.T) {
	var h Heap[int, int, *int]
	for i := range 8 {
		h.Push(i, 0, new(int))
	}
	h.Pop()
	h.Filter(func(x Item[int, int, *int]) bool { return x.Key%2 == 0 })
	for i, x := range h[len(h):8] {
		if x.Value != nil {
			t.Errorf("place %d behind the heap still holds %d", len(h)+i, x.Key)
		}
	}
}

// Pop returns keys in order after any sequence of Push and Pop.
func TestKeysLeaveInOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		var h Keys[uint64]
		var want []uint64
		for range 500 {
			if len(want) == 0 || r.IntN(5) < 3 {
				k := r.Uint64N(200)
				h.Push(k)
				want = append(want, k)
				slices.Sort(want)
				continue
			}
			if got := h.Pop(); got != want[0] || len(h) != len(want)-1 {
				t.Fatalf("seed %d: Pop() = %d of %d, want %d of %d", seed, got, len(h)+1, want[0], len(want))
			}
			want = want[1:]
		}
	}
}
