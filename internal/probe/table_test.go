package probe

import (
	"math/rand/v2"
	"testing"
)

// A table has the same entries as a map after any sequence of operations, for consecutive keys and keys with a
// stride.
func TestTableIsAMap(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		stride := int32(1 + r.IntN(4)*r.IntN(200))
		table, want := New[int32, int](-1), map[int32]int{}
		for i := range 4000 {
			k := int32(i/8+r.IntN(200)) * stride
			value, ok := want[k]
			if got := *table.Get(k); got != value {
				t.Fatalf("seed %d, stride %d, step %d: %d has %d, want %d", seed, stride, i, k, got, value)
			}
			switch {
			case r.IntN(2) == 0:
				want[k] = i
				p, entered := table.Put(k)
				if entered == ok || *p != value {
					t.Fatalf("seed %d, stride %d, step %d: Put(%d) = %d, %v, want %d, %v", seed, stride, i, k, *p, entered, value, !ok)
				}
				*p = i
			case ok:
				table.Delete(k)
				delete(want, k)
			}
		}
		checkSame(t, seed, &table, want)
	}
}

func checkSame(t *testing.T, seed uint64, table *Table[int32, int], want map[int32]int) {
	t.Helper()
	if table.Len() != len(want) || 2*table.Len() > len(table.slots) {
		t.Fatalf("seed %d: %d entries on %d slots, want %d", seed, table.Len(), len(table.slots), len(want))
	}
	seen := 0
	for k, value := range table.All() {
		if seen++; *value != want[k] {
			t.Fatalf("seed %d: %d has %d, want %d", seed, k, *value, want[k])
		}
	}
	if seen != len(want) {
		t.Fatalf("seed %d: All yields %d entries, want %d", seed, seen, len(want))
	}
}

// A table does not grow if keys are added and deleted in turn.
func TestTableStaysSmall(t *testing.T) {
	table := New[uint64, string](^uint64(0))
	for k := range uint64(10000) {
		table.Put(k << 33)
		if k >= 4 {
			table.Delete((k - 4) << 33)
		}
	}
	if table.Len() != 4 || len(table.slots) != minSlots {
		t.Errorf("%d entries on %d slots, want 4 on %d", table.Len(), len(table.slots), minSlots)
	}
}
