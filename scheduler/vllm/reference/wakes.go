package reference

import "fmt"

// wake combines a step and the slot of the request that wakes in it, in one word that sorts by step. A heap of such
// words has two thirds of the size of a heap of pairs. The heap is a large part of the cost of a decode pass.
type wake uint64

// slotBits is the number of bits of a slot, an int32 >= 0. slotBits leaves 33 bits for steps, more than 8 * 10^9
// passes of one worker.
const slotBits = 31

func newWake(step int64, s slot) wake {
	if step>>(64-slotBits) != 0 || s < 0 {
		panic(fmt.Sprintf("wake of slot %d in step %d, must be a slot >= 0 and a step < 2^%d", s, step, 64-slotBits))
	}
	return wake(step)<<slotBits | wake(s)
}

func (w wake) step() int64 { return int64(w >> slotBits) }
func (w wake) slot() slot  { return slot(w & (1<<slotBits - 1)) }
