// Package queue is a queue of KV blocks that leave it in turn or out of turn.
package queue

// Queue is the blocks of a pool that no request holds, the one to be taken next in front. A block that leaves it out of turn stays
// where it stood until its turn comes or the queue is full. The caller knows it by its place, which Push has returned.
type Queue struct {
	slots      []int32 // a power of two of them
	head, tail uint32  // places, modulo len(slots)
}

// leastSlots is the number of slots of a queue that has any.
const leastSlots = 64

// IsFull reports whether Push requires MakeRoom before it.
func (q *Queue) IsFull() bool { return q.tail-q.head == uint32(len(q.slots)) }

// Push puts b at the end of q, which is not full, and returns its place.
func (q *Queue) Push(b int32) (place uint32) {
	place = q.tail
	q.slots[place&uint32(len(q.slots)-1)] = b
	q.tail++
	return place
}

// Pop takes out what is in front of q, which is not empty.
func (q *Queue) Pop() (b int32, place uint32) {
	place = q.head
	q.head++
	return q.slots[place&uint32(len(q.slots)-1)], place
}

// MakeRoom drops the blocks that have left out of turn, as stands reports, and gives each remaining block a new place with move.
// At least half of the slots are free then.
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

// Visit calls use with what is in q, in order.
func (q *Queue) Visit(use func(b int32, place uint32)) {
	for place := q.head; place != q.tail; place++ {
		use(q.slots[place&uint32(len(q.slots)-1)], place)
	}
}
