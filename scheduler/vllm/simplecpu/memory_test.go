package simplecpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/host"
)

// plain is a literal implementation of Memory.
type plain struct {
	usable  int
	blocks  map[int32]*plainBlock
	waiting []int32 // blocks without holders in order of eviction
	copies  map[Key][]int32
}

type plainBlock struct {
	key     Key
	holders int
}

func (m *plain) take() int32 {
	if len(m.blocks) < m.usable {
		b := int32(len(m.blocks))
		m.blocks[b] = &plainBlock{holders: 1}
		return b
	}
	b := m.waiting[0]
	m.waiting = m.waiting[1:]
	key := m.blocks[b].key
	m.copies[key] = slices.DeleteFunc(m.copies[key], func(x int32) bool { return x == b })
	m.blocks[b].holders = 1
	return b
}

func (m *plain) dropHolders(all []int32) {
	for _, b := range all {
		if m.blocks[b].holders--; m.blocks[b].holders == 0 {
			m.waiting = append(m.waiting, b)
		}
	}
}

func (m *plain) hold(b int32) {
	if m.blocks[b].holders++; m.blocks[b].holders == 1 {
		m.waiting = slices.DeleteFunc(m.waiting, func(x int32) bool { return x == b })
	}
}

// TestMemoryEqualsPlain runs random stores and lookups. Memory allocates, finds and evicts the same blocks as the
// literal implementation.
func TestMemoryEqualsPlain(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			room := 2 + r.IntN(12)
			m := NewMemory(room)
			p := &plain{usable: room - 1, blocks: map[int32]*plainBlock{}, copies: map[Key][]int32{}}
			var pinned []int32
			for step := range 400 {
				key := Key(r.IntN(15))
				switch free := p.usable - len(p.blocks) + len(p.waiting); r.IntN(3) {
				case 0:
					if m.free != free {
						t.Fatalf("step %d: %d blocks are free, must be %d", step, m.free, free)
					}
					if free == 0 {
						continue
					}
					b, x := m.takeBlock(), p.take()
					if b != x {
						t.Fatalf("step %d: took %d, must be %d", step, b, x)
					}
					if only := m.name(b, key); only != (len(p.copies[key]) == 0) {
						t.Fatalf("step %d: key %d is the only one: %v", step, key, only)
					}
					p.blocks[x].key, p.copies[key] = key, append(p.copies[key], x)
					m.dropHolders([]int32{b})
					p.dropHolders([]int32{x})
				case 1:
					b, ok := m.find(key)
					if all := p.copies[key]; ok != (len(all) > 0) || ok && b != all[0] {
						t.Fatalf("step %d: found %d, %v, must be the first of %v", step, b, ok, all)
					}
					if ok {
						m.hold(b)
						p.hold(b)
						pinned = append(pinned, b)
					}
				default:
					m.dropHolders(pinned)
					p.dropHolders(pinned)
					pinned = nil
				}
			}
		})
	}
}

// TestStoreAndLoad checks that a store of two blocks begins after the computation, and that its duration depends on
// its bytes. Lookups find the blocks after the store has completed. A pass that preempts a request waits for the
// store.
func TestStoreAndLoad(t *testing.T) {
	c := New(&blocks.Offload{Blocks: 4, BytesPerToken: 1000, ToHostGBPerSecond: 0.004, ToGPUGBPerSecond: 0.004}, 4, true)
	var u User
	held := []host.Block{7, 3}
	offer := &Offer{
		Ready: 2,
		At:    func(i int) (host.Block, bool) { return held[i], true },
		Key:   func(b host.Block) (Key, bool) { return Key(b), true },
		Hold:  func(host.Block, int, Key) {},
	}
	if !c.Offer(&u, offer) || u.Next != 2 {
		t.Fatalf("%d blocks offered, and no transfer begins", u.Next)
	}
	c.Begin(10)
	if done := c.Finish(15, nil); len(done) > 0 {
		t.Fatalf("%d transfers have ended", len(done))
	}
	if end, ok := c.Next(0); !ok || end != 17 {
		t.Errorf("the store ends at %v, %v, must be 17", end, ok)
	}
	key := func(i int) Key { return Key(held[i]) }
	if n := c.Lookup(&u, 0, 2, key); n != 0 {
		t.Errorf("found %d blocks of a store that has not ended", n)
	}
	c.Flush = true
	if start := c.Begin(16); start != 17 {
		t.Errorf("the pass begins at %v, must be 17", start)
	}
	done := c.Finish(17, nil)
	if len(done) != 1 {
		t.Fatalf("%d transfers have ended, must be 1", len(done))
	}
	c.Complete(done[0], func(Key) {})
	if n := c.Lookup(&u, 0, 2, key); n != 2 {
		t.Errorf("found %d blocks, must be 2", n)
	}
	if again := c.Offer(&User{}, offer); again {
		t.Error("blocks that are in host memory are stored again")
	}
}
