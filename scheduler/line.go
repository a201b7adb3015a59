package scheduler

// Line is a double-ended queue of requests that wait for an engine. The zero value of Line is empty.
type Line[T comparable] struct {
	items []T // items[first:] are in the queue
	first int
}

// slack is the room that PushFront makes before the first item if there is none.
const slack = 64

// Len returns the number of requests in the queue.
func (l *Line[T]) Len() int { return len(l.items) - l.first }

// All returns the requests in the queue. The caller may change the order of the requests.
func (l *Line[T]) All() []T { return l.items[l.first:] }

// Front returns the head of the queue.
func (l *Line[T]) Front() T { return l.items[l.first] }

// PushBack adds x at the end.
func (l *Line[T]) PushBack(x T) {
	if l.first > slack && l.first > len(l.items)/2 {
		n := slack + copy(l.items[slack:], l.items[l.first:])
		clear(l.items[n:])
		l.items, l.first = l.items[:n], slack
	}
	l.items = append(l.items, x)
}

// PushFront adds x at the front.
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

// Insert inserts x before item i of All.
func (l *Line[T]) Insert(i int, x T) {
	l.PushBack(x)
	all := l.All()
	copy(all[i+1:], all[i:])
	all[i] = x
}

// PopFront removes the head of the queue.
func (l *Line[T]) PopFront() {
	var none T
	l.items[l.first] = none
	l.first++
	if l.first == len(l.items) {
		l.items, l.first = l.items[:0], 0
	}
}

// Remove removes x, which may be anywhere in the queue.
func (l *Line[T]) Remove(x T) {
	for i := l.first; i < len(l.items); i++ {
		if l.items[i] == x {
			copy(l.items[l.first+1:], l.items[l.first:i])
			l.PopFront()
			return
		}
	}
}
