package simplecpu

import "github.com/replay-llm/replay/scheduler/vllm/places"

// index maps keys to blocks. Keys from 0 on name blocks of shared prompts, and keys below 0 name blocks of single
// requests.
type index struct {
	shared places.Table
	own    map[Key]int32
}

func newIndex() index { return index{own: map[Key]int32{}} }

// get returns the block with a key; ok is false if there is none.
func (x *index) get(key Key) (b int32, ok bool) {
	if key < 0 {
		b, ok = x.own[key]
		return b, ok
	}
	if row := x.shared.Row(key); len(row) > 0 && row[0] > 0 {
		return row[0] - 1, true
	}
	return none, false
}

// set sets the block of a key.
func (x *index) set(key Key, b int32) {
	if key < 0 {
		x.own[key] = b
	} else {
		x.shared.Enter(key)[0] = b + 1
	}
}

// remove removes a key, which must have a block.
func (x *index) remove(key Key) {
	if key < 0 {
		delete(x.own, key)
	} else {
		x.shared.Enter(key)[0] = 0
	}
}
