package simplecpu

import (
	"fmt"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/scheduler/vllm/queue"
)

// Key names the content of a block.
type Key = int64

// none is the number for no block.
const none int32 = -1

// block is a block of host memory.
type block struct {
	key     Key
	found   bool // the block contains a copy of the block with this key
	holders int32
	place   uint32 // position in the queue, if the block has no holder
	later   int32  // the next copy with the same key, or none
}

// Memory contains the blocks of host memory. Blocks without holders are evicted in the order in which they lost their
// last holder.
type Memory struct {
	usable, free int
	all          []block
	queue        queue.Queue // blocks without holders
	first        index       // by key: the copy that was stored first
	gone         []Key       // keys without copies since the latest call of Connector.TakeRemoved
}

// NewMemory returns empty memory. One block of the memory is the null block, which never has a copy.
func NewMemory(blocks int) Memory {
	usable := max(blocks-1, 0)
	return Memory{usable: usable, free: usable, first: newIndex()}
}

// find returns the first copy of the block with a key.
func (m *Memory) find(key Key) (b int32, ok bool) {
	return m.first.get(key)
}

// takeBlock evicts and returns the next block. There must be a block without holders.
func (m *Memory) takeBlock() int32 {
	m.free--
	if len(m.all) < m.usable {
		m.all = append(m.all, block{holders: 1, later: none})
		return int32(len(m.all) - 1)
	}
	b, place := m.queue.Pop()
	for !m.isQueued(b, place) {
		b, place = m.queue.Pop()
	}
	m.evict(b)
	m.all[b].holders = 1
	return b
}

// isQueued reports whether b is at that position in the queue.
func (m *Memory) isQueued(b int32, place uint32) bool {
	return m.all[b].holders == 0 && m.all[b].place == place
}

// evict removes the copy in b, so that lookups do not find it.
func (m *Memory) evict(b int32) {
	k := &m.all[b]
	if !k.found {
		return
	}
	k.found = false
	switch at, _ := m.first.get(k.key); {
	case at != b:
		for m.all[at].later != b {
			at = m.all[at].later
		}
		m.all[at].later = k.later
	case k.later != none:
		m.first.set(k.key, k.later)
	default:
		m.first.remove(k.key)
		m.gone = append(m.gone, k.key)
	}
	k.later = none
}

// name makes b a copy of the block with a key, and reports whether it is the only copy.
func (m *Memory) name(b int32, key Key) (only bool) {
	k := &m.all[b]
	k.key, k.found = key, true
	at, ok := m.first.get(key)
	if !ok {
		m.first.set(key, b)
		return true
	}
	for m.all[at].later != none {
		at = m.all[at].later
	}
	m.all[at].later = b
	return false
}

// hold adds a holder to b.
func (m *Memory) hold(b int32) {
	if m.all[b].holders == 0 {
		m.free--
	}
	m.all[b].holders++
}

// dropHolders removes a holder from each of the blocks, in order.
func (m *Memory) dropHolders(all []int32) {
	for _, b := range all {
		k := &m.all[b]
		if invariant.Enabled && k.holders < 1 {
			panic(fmt.Sprintf("block %d of host memory has %d holders", b, k.holders))
		}
		if k.holders == 1 && m.queue.IsFull() {
			m.queue.MakeRoom(m.isQueued, func(b int32, place uint32) { m.all[b].place = place })
		}
		if k.holders--; k.holders == 0 {
			m.free++
			k.place = m.queue.Push(b)
		}
	}
}
