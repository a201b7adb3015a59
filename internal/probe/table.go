// Package probe is a hash table for integers with linear probing.
//
// It closes the gap where an entry leaves, so it stays as fast as it began and never grows while the number of its
// entries does not. Entries move when other entries come or leave.
package probe

import (
	"iter"
	"math/bits"
)

// Integer is the type of a table's keys.
type Integer interface {
	~int32 | ~uint64
}

// Table maps keys to values. Use New to make one.
type Table[K Integer, V any] struct {
	slots []slot[K, V] // a power of two of them, at least twice as many as used
	used  int
	none  K     // the key of a free slot
	shift uint8 // leaves of 64 bits as many as number the slots
}

type slot[K Integer, V any] struct {
	key   K
	value V // the zero value while the slot is free
}

// minSlots is the least number of slots of a table.
const minSlots = 16

// New returns an empty table. The key none is never entered.
func New[K Integer, V any](none K) Table[K, V] {
	t := Table[K, V]{none: none}
	t.layOut(minSlots)
	return t
}

// layOut gives the table slots that are all free.
func (t *Table[K, V]) layOut(slots int) {
	t.slots = make([]slot[K, V], slots)
	t.shift = uint8(65 - bits.Len(uint(slots)))
	for i := range t.slots {
		t.slots[i].key = t.none
	}
}

// home returns where the search for k begins. The factor is that of the golden section. It separates keys that follow
// each other, at any stride.
func (t *Table[K, V]) home(k K) int {
	return int(uint64(k) * 0x9e3779b97f4a7c15 >> (t.shift & 63))
}

// find returns the slot of k, or the free one where it would be.
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

// Get returns the value of k. Where there is none it is the zero value, which
// is not to be changed.
func (t *Table[K, V]) Get(k K) *V { return &t.slots[t.find(k)].value }

// Put returns the value of k, which it enters with the zero value if there is
// none, and reports whether it did.
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

// Delete removes k, which is there.
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

// All yields the entries, in no order that means anything.
func (t *Table[K, V]) All() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for i := range t.slots {
			if s := &t.slots[i]; s.key != t.none && !yield(s.key, &s.value) {
				return
			}
		}
	}
}
