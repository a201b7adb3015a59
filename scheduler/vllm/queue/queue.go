// Package queue is a queue of KV blocks that supports lazy removal from the middle.
package queue

// Queue contains the free blocks of a pool; the front block is allocated next. A block removed from the middle
// remains in its slot until it reaches the front or the queue is full. The caller detects a removed block by the
// position that Push returned.
type Queue struct {
	slots      []int32 // the length is a power of two
	head, tail uint32  // positions, modulo len(slots)
}

// leastSlots is the minimum number of slots of a non-empty queue.
const leastSlots = 64

// IsFull reports whether MakeRoom must be called before Push.
func (q *Queue) IsFull() bool { return q.tail-q.head == uint32(len(q.slots)) }

// Push appends b to q and returns its position. q must not be full.
func (q *Queue) Push(b int32) (place uint32) {
	place = q.tail
	q.slots[place&uint32(len(q.slots)-1)] = b
	q.tail++
	return place
}

// Pop removes and returns the front block of q. q must not be empty.
func (q *Queue) Pop() (b int32, place uint32) {
	place = q.head
	q.head++
	return q.slots[place&uint32(len(q.slots)-1)], place
}

// MakeRoom drops the blocks for which stands returns false, and calls move with the new position of each remaining
// block. At least half of the slots are free then.
func (q *Queue) MakeRoom(stands func(b int32, place uint32) bool, move func(b int32, place uint32)) {
	var all []int32
	q.Visit(func(b int32, place uint32) {
		if stands(b, place) {
			all = append(all, b)
		}
	})
	if size := max(leastSlots, len(q.slots)); 2*len(all) > size {
		q.slots = make([]int32, 2*size)
	} else if size > len(q.slots) {
		q.slots = make([]int32, size)
	}
	q.tail = q.head
	for _, b := range all {
		move(b, q.Push(b))
	}
}

// Visit calls use with every block in q, in order.
func (q *Queue) Visit(use func(b int32, place uint32)) {
	for place := q.head; place != q.tail; place++ {
		use(q.slots[place&uint32(len(q.slots)-1)], place)
	}
}
