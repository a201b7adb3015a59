package router

// ring is a queue that reuses the memory of its items.
type ring[T any] struct {
	items []T
	first int
	count int
}

// push adds an item and returns it. The item may have the contents of an old item.
func (r *ring[T]) push() *T {
	if r.count == len(r.items) {
		wide := make([]T, max(16, 2*r.count))
		n := copy(wide, r.items[r.first:])
		copy(wide[n:], r.items[:r.first])
		r.items, r.first = wide, 0
	}
	r.count++
	return r.at(r.count - 1)
}

// at returns the ith item.
func (r *ring[T]) at(i int) *T {
	if i += r.first; i >= len(r.items) {
		i -= len(r.items)
	}
	return &r.items[i]
}

// pop removes and returns the first item, which is valid until the next push.
func (r *ring[T]) pop() *T {
	x := r.at(0)
	if r.first++; r.first == len(r.items) {
		r.first = 0
	}
	r.count--
	return x
}

func (r *ring[T]) clear() { r.first, r.count = 0, 0 }
