// Package sliding has lists that lose their first elements while new ones are added.
package sliding

// List is a list of elements that are known by their place among all that ever were in it. The zero value is empty.
type List[T any] struct {
	first int // place of the first that is left
	left  []T
}

// Len returns how many elements ever were in l.
func (l *List[T]) Len() int { return l.first + len(l.left) }

// At returns the element at a place, which is left. It is l's own until the next Append.
func (l *List[T]) At(i int) *T { return &l.left[i-l.first] }

// Append adds an element at the place Len.
func (l *List[T]) Append(v T) { l.left = append(l.left, v) }

// Drop takes the elements before a place away.
func (l *List[T]) Drop(before int) {
	l.left = l.left[before-l.first:]
	l.first = before
}

// Grow makes room for n more elements.
func (l *List[T]) Grow(n int) { l.left = append(make([]T, 0, len(l.left)+n), l.left...) }
