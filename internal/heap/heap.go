// Package heap implements a binary heap of values with two sort keys.
//
// Keys have ordered types of the language, not types with a comparison method. The compiler inlines `<`, but a call
// of a method of a type parameter is indirect and costs more than the rest of a heap operation.
package heap

import (
	"cmp"
	"slices"
)

// Item is an element of a heap. Items are ordered by Key, and items with equal keys by Tie.
type Item[K, T cmp.Ordered, V any] struct {
	Value V // the first field, so that a zero-size value uses no memory
	Key   K
	Tie   T
}

// Before reports whether a is ordered before b.
func (a Item[K, T, V]) Before(b Item[K, T, V]) bool { return a.before(&b) }

func (a *Item[K, T, V]) before(b *Item[K, T, V]) bool {
	if a.Key != b.Key {
		return a.Key < b.Key
	}
	return a.Tie < b.Tie
}

// Heap is a binary heap with the least item first. The zero value is an empty heap.
//
// The order of items with equal Key and equal Tie is unspecified.
type Heap[K, T cmp.Ordered, V any] []Item[K, T, V]

// Push adds an item.
func (h *Heap[K, T, V]) Push(key K, tie T, value V) {
	item := Item[K, T, V]{Key: key, Tie: tie, Value: value}
	s := append(*h, item)
	*h = s
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !item.before(&s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = item
}

// Pop removes the least item and returns it.
func (h *Heap[K, T, V]) Pop() Item[K, T, V] {
	s := *h
	last := len(s) - 1
	first, item := s[0], s[last]
	s[last] = Item[K, T, V]{}
	s = s[:last]
	*h = s
	if last > 0 {
		s.sink(0, item)
	}
	return first
}

// SetFirst replaces the keys of the least item.
func (h Heap[K, T, V]) SetFirst(key K, tie T) {
	h.sink(0, Item[K, T, V]{Key: key, Tie: tie, Value: h[0].Value})
}

// Filter removes the items for which keep reports false.
func (h *Heap[K, T, V]) Filter(keep func(Item[K, T, V]) bool) {
	s := *h
	kept := s[:0]
	for _, item := range s {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	clear(s[len(kept):])
	*h = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		kept.sink(i, kept[i])
	}
}

// Sorted returns the items, least first.
func (h Heap[K, T, V]) Sorted() []Item[K, T, V] {
	s := slices.Clone(h)
	slices.SortFunc(s, func(a, b Item[K, T, V]) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Tie, b.Tie))
	})
	return s
}

// sink moves item down from index i to its position. The previous item at i was removed.
func (h Heap[K, T, V]) sink(i int, item Item[K, T, V]) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&item) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = item
}

// Keys is a binary heap of keys without values, the least key first. The operations take two thirds of the time of a
// Heap with one-word items. The zero value is an empty heap.
type Keys[K cmp.Ordered] []K

// Push adds a key.
func (h *Keys[K]) Push(key K) {
	s := append(*h, key)
	*h = s
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent] <= key {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = key
}

// Pop removes the least key and returns it.
func (h *Keys[K]) Pop() K {
	s := *h
	last := len(s) - 1
	first, key := s[0], s[last]
	s = s[:last]
	*h = s
	i := 0
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1] < s[child] {
			child++
		}
		if key <= s[child] {
			break
		}
		s[i] = s[child]
		i = child
	}
	if last > 0 {
		s[i] = key
	}
	return first
}
