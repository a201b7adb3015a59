// Package stable sorts lists in little code: the program has lists of many types, and a copy of the sort of package slices for
// each of them takes 7 KB.
package stable

import "sort"

// Sort sorts a list as slices.SortStableFunc does, in half more time. It is for lists that are sorted a few times in a run.
func Sort[L ~[]E, E any](all L, compare func(a, b E) int) {
	sort.Stable(sorted[E]{all, compare})
}

// sorted is a list and its order.
type sorted[E any] struct {
	all     []E
	compare func(a, b E) int
}

func (s sorted[E]) Len() int           { return len(s.all) }
func (s sorted[E]) Less(i, j int) bool { return s.compare(s.all[i], s.all[j]) < 0 }
func (s sorted[E]) Swap(i, j int)      { s.all[i], s.all[j] = s.all[j], s.all[i] }
