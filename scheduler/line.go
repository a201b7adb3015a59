package scheduler

// Line is the line of requests that wait for an engine, open at both ends. Its
// zero value is empty.
type Line[T comparable] struct {
	items []T // those from first on
	first int
}

// slack is the room that is made in front of a line when there is none.
const slack = 64

// Len returns the number of requests in line.
func (l *Line[T]) Len() int { return len(l.items) - l.first }

// All returns the requests in line, which may be put into another order.
func (l *Line[T]) All() []T { return l.items[l.first:] }

// Front returns the head of the line.
func (l *Line[T]) Front() T { return l.items[l.first] }

// PushBack puts x at the end.
func (l *Line[T]) PushBack(x T) {
	if l.first > slack && l.first > len(l.items)/2 {
		n := slack + copy(l.items[slack:], l.items[l.first:])
		clear(l.items[n:])
		l.items, l.first = l.items[:n], slack
	}
	l.items = append(l.items, x)
}

// PushFront puts x at the front.
func (l *Line[T]) PushFront(x T) {
	if l.first == 0 {
		n := len(l.items)
		l.items = append(l.items, make([]T, slack)...)
		copy(l.items[slack:], l.items[:n])
		clear(l.items[:slack])
		l.first = slack
	}
	l.first--
	l.items[l.first] = x
}

// Insert puts x before the item at place i of All.
func (l *Line[T]) Insert(i int, x T) {
	l.PushBack(x)
	all := l.All()
	copy(all[i+1:], all[i:])
	all[i] = x
}

// PopFront takes the head out of the line.
func (l *Line[T]) PopFront() {
	var none T
	l.items[l.first] = none
	l.first++
	if l.first == len(l.items) {
		l.items, l.first = l.items[:0], 0
	}
}

// Remove removes x from any place in line.
func (l *Line[T]) Remove(x T) {
	for i := l.first; i < len(l.items); i++ {
		if l.items[i] == x {
			copy(l.items[l.first+1:], l.items[l.first:i])
			l.PopFront()
			return
		}
	}
}
