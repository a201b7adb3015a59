// Package probe implements a hash table with integer keys and linear probing.
//
// Deleting an entry moves later entries into the gap, so deletions do not slow down the table. The table grows only
// if the number of entries grows. Entries may move when other entries are added or deleted.
package probe

import (
	"iter"
	"math/bits"
)

// Integer is the constraint for keys of a table.
type Integer interface {
	~int32 | ~uint64
}

// Table maps integer keys to values. Use New to create a table.
type Table[K Integer, V any] struct {
	slots []slot[K, V] // a power of two, at least twice the number of entries
	used  int
	none  K     // the key of free slots
	shift uint8 // 64 minus the number of bits of a slot index
}

type slot[K Integer, V any] struct {
	key   K
	value V // the zero value if the slot is free
}

// minSlots is the minimum number of slots of a table.
const minSlots = 16

// New returns an empty table. The key none marks free slots and must not be added.
func New[K Integer, V any](none K) Table[K, V] {
	t := Table[K, V]{none: none}
	t.layOut(minSlots)
	return t
}

// layOut allocates free slots.
func (t *Table[K, V]) layOut(slots int) {
	t.slots = make([]slot[K, V], slots)
	t.shift = uint8(65 - bits.Len(uint(slots)))
	for i := range t.slots {
		t.slots[i].key = t.none
	}
}

// home returns the first slot of the search for k. home uses Fibonacci hashing: the factor is 2^64 divided by the
// golden ratio. Fibonacci hashing separates consecutive keys, and keys with any stride.
func (t *Table[K, V]) home(k K) int {
	return int(uint64(k) * 0x9e3779b97f4a7c15 >> (t.shift & 63))
}

// find returns the slot of k, or the free slot for k if the table does not contain k.
func (t *Table[K, V]) find(k K) int {
	mask := len(t.slots) - 1
	i := t.home(k)
	for t.slots[i].key != k && t.slots[i].key != t.none {
		i = (i + 1) & mask
	}
	return i
}

// Len returns the number of entries.
func (t *Table[K, V]) Len() int { return t.used }

// Get returns a pointer to the value of k. If the table does not contain k, it points to a zero value that the caller
// must not change.
func (t *Table[K, V]) Get(k K) *V { return &t.slots[t.find(k)].value }

// Put returns a pointer to the value of k. If the table does not contain k, Put adds it with the zero value. entered
// reports whether Put added k.
func (t *Table[K, V]) Put(k K) (value *V, entered bool) {
	s := &t.slots[t.find(k)]
	if s.key == k {
		return &s.value, false
	}
	t.used++
	if 2*t.used > len(t.slots) {
		t.grow()
		s = &t.slots[t.find(k)]
	}
	s.key = k
	return &s.value, true
}

func (t *Table[K, V]) grow() {
	old := t.slots
	t.layOut(2 * len(old))
	for i := range old {
		if k := old[i].key; k != t.none {
			t.slots[t.find(k)] = old[i]
		}
	}
}

// Delete removes k. The table must contain k.
func (t *Table[K, V]) Delete(k K) {
	t.used--
	slots, mask := t.slots, len(t.slots)-1
	gap := t.find(k)
	for i := (gap + 1) & mask; slots[i].key != t.none; i = (i + 1) & mask {
		if (i-t.home(slots[i].key))&mask >= (i-gap)&mask {
			slots[gap] = slots[i]
			gap = i
		}
	}
	slots[gap] = slot[K, V]{key: t.none}
}

// All yields the entries in unspecified order.
func (t *Table[K, V]) All() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for i := range t.slots {
			if s := &t.slots[i]; s.key != t.none && !yield(s.key, &s.value) {
				return
			}
		}
	}
}
