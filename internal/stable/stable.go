// Package stable sorts lists with little compiled code. Package slices compiles a copy of its sort functions for each
// type of list, and each copy adds 7 KB to the program.
package stable

import "sort"

// Sort sorts a list as slices.SortStableFunc does, but takes 50% more time. Sort is for lists that are sorted a few
// times per run.
func Sort[L ~[]E, E any](all L, compare func(a, b E) int) {
	sort.Stable(sorted[E]{all, compare})
}

// sorted implements sort.Interface for a list.
type sorted[E any] struct {
	all     []E
	compare func(a, b E) int
}

func (s sorted[E]) Len() int           { return len(s.all) }
func (s sorted[E]) Less(i, j int) bool { return s.compare(s.all[i], s.all[j]) < 0 }
func (s sorted[E]) Swap(i, j int)      { s.all[i], s.all[j] = s.all[j], s.all[i] }
