// Package sliding implements lists and tables for a moving range of indices.
package sliding

// List is a list of which the first elements can be dropped. The indices of the other elements do not change. The
// zero value is empty.
type List[T any] struct {
	first int // index of the first element that was not dropped
	left  []T
}

// Len returns the number of elements, including dropped elements.
func (l *List[T]) Len() int { return l.first + len(l.left) }

// At returns a pointer to the element at index i, which must not be dropped. The pointer is valid until the next
// Append.
func (l *List[T]) At(i int) *T { return &l.left[i-l.first] }

// Append adds an element at index Len.
func (l *List[T]) Append(v T) { l.left = append(l.left, v) }

// Drop drops all elements before an index.
func (l *List[T]) Drop(before int) {
	l.left = l.left[before-l.first:]
	l.first = before
}

// Grow reserves memory for n more elements.
func (l *List[T]) Grow(n int) { l.left = append(make([]T, 0, len(l.left)+n), l.left...) }
