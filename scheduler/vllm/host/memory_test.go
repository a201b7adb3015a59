package host_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler/vllm/host"
)

// list is the list of keys of a user: parts with consecutive keys.
type list []int64

func (l list) Span(i, most int) (key int64, blocks int) {
	by := int64(1)
	if l[i] < 0 {
		by = -1
	}
	for n := 1; ; n++ {
		if n == most || i+n == len(l) || l[i+n] != l[i]+by*int64(n) {
			return l[i], n
		}
	}
}

// evicted lists the keys of evicted blocks, in order.
type evicted []host.Key

func (e *evicted) NoteEvicted(key host.Key) { *e = append(*e, key) }

// indicesOf returns the indices of the blocks of spans.
func indicesOf(all []host.Span) (indices []int32) {
	for _, s := range all {
		for d := range s.Blocks {
			indices = append(indices, s.Index+d)
		}
	}
	return indices
}

// plain is a literal implementation of vLLM's manager and its policy. Every block has a rank, and evictions search
// all blocks for the lowest rank.
type plain struct {
	room   int
	ranked bool
	blocks map[int64]*plainBlock
	rank   int
	out    evicted
}

type plainBlock struct {
	ready   bool
	readers int
	rank    [2]int // the block with the lowest rank is evicted first
}

func (a *plainBlock) before(b *plainBlock) bool { return slices.Compare(a.rank[:], b.rank[:]) < 0 }

// plainUser is a user of plain.
type plainUser struct {
	list
	seen map[int]bool
	rank int
}

func (m *plain) next() int { m.rank++; return m.rank }

func (m *plain) use(u *plainUser, i int) {
	if !m.ranked || u.seen[i] {
		return
	}
	u.seen[i] = true
	if u.rank == 0 {
		u.rank = m.next()
	}
	if b, mine := m.blocks[u.list[i]], [2]int{u.rank, -i - 1}; b != nil && slices.Compare(b.rank[:], mine[:]) < 0 {
		b.rank = mine
	}
}

func (m *plain) offer(u *plainUser, from, end int) (stored []int32, ok bool) {
	for i := from; i < end; i++ {
		b := m.blocks[u.list[i]]
		if b == nil {
			stored = append(stored, int32(i))
		}
		if b == nil || b.ready {
			m.use(u, i)
		}
	}
	var out []int64
	for lack := len(stored) - (m.room - len(m.blocks)); lack > 0; lack-- {
		least := int64(0)
		for key, b := range m.blocks {
			if b.ready && b.readers == 0 && !slices.Contains(u.list[from:end], key) && !slices.Contains(out, key) && (least == 0 || b.before(m.blocks[least])) {
				least = key
			}
		}
		if least == 0 {
			return nil, false
		}
		out = append(out, least)
	}
	for _, key := range out {
		delete(m.blocks, key)
		if key < 0 {
			key = -1<<63 + ^key
		}
		m.out.NoteEvicted(host.Key(key))
	}
	for _, i := range stored {
		b := &plainBlock{}
		if m.ranked {
			b.rank = [2]int{u.rank, -int(i) - 1}
		}
		m.blocks[u.list[i]] = b
	}
	return stored, true
}

// release sets the rank of a block that may be evicted again, by the rules of vLLM 0.24.
func (m *plain) release(key int64) {
	if !m.ranked {
		m.blocks[key].rank = [2]int{m.next(), 0}
	}
}

func (m *plain) end(u *plainUser) {
	for i := len(u.list) - 1; i >= 0; i-- {
		if b := m.blocks[u.list[i]]; u.seen[i] && b != nil {
			b.rank = [2]int{m.next(), 0}
		}
	}
	u.seen, u.rank = map[int]bool{}, 0
}

func (m *plain) touch(u *plainUser) {
	for _, key := range slices.Backward(u.list) {
		if b := m.blocks[key]; b != nil && b.ready && b.readers == 0 {
			b.rank = [2]int{m.next(), 0}
		}
	}
}

// TestMemoryEqualsPlain runs random stores, loads, touches and ends on lists with common parts. Memory stores, finds
// and evicts the same blocks as the literal implementation.
func TestMemoryEqualsPlain(t *testing.T) {
	for seed := range uint64(400) {
		ranked := seed%2 == 0
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			room, size := 1+r.IntN(40), 8
			if seed%5 == 0 {
				room, size = room+40, 30
			}
			var out evicted
			m, p := host.New(room, ranked), &plain{room: room, ranked: ranked, blocks: map[int64]*plainBlock{}}
			m.Watcher = &out
			type job struct {
				blocks []host.Span
				keys   []int64
			}
			var users []*host.User
			var plains []*plainUser
			var stores, loads []job
			for range 6 {
				var l list
				for range 1 + r.IntN(4) {
					part := int64(1000 + size*r.IntN(5)) // a part has consecutive keys on two pages
					if r.IntN(6) == 0 {
						part = -1000 - 100*int64(len(users)) - int64(len(l))
					}
					for d := range int64(1 + r.IntN(size)) {
						if part < 0 {
							d = -d
						}
						if !slices.Contains(l, part+d) {
							l = append(l, part+d)
						}
					}
				}
				users = append(users, &host.User{Keyer: l})
				plains = append(plains, &plainUser{list: l, seen: map[int]bool{}})
			}
			for step := range 300 {
				n := r.IntN(len(users))
				u, q := users[n], plains[n]
				from := r.IntN(len(q.list))
				end := from + 1 + r.IntN(len(q.list)-from)
				found := m.Lookup(u, from, end)
				count := 0
				for i := from; i < end && p.blocks[q.list[i]] != nil; i++ {
					count++
				}
				if found.Blocks != count {
					t.Fatalf("step %d: found %d blocks, want %d", step, found.Blocks, count)
				}
				switch k := r.IntN(6); {
				case k < 2:
					stored, ok := m.Offer(u, from, end)
					want, wantOK := p.offer(q, from, end)
					if ok != wantOK || !slices.Equal(indicesOf(stored), want) {
						t.Fatalf("step %d: stored %v, %v, want %v, %v", step, stored, ok, want, wantOK)
					}
					if !slices.Equal(out, p.out) {
						t.Fatalf("step %d: evicted %v, want %v", step, out, p.out)
					}
					out, p.out = out[:0], p.out[:0]
					if len(stored) > 0 {
						j := job{blocks: slices.Clone(stored)}
						for _, i := range want {
							j.keys = append(j.keys, q.list[i])
						}
						stores = append(stores, j)
					}
				case k == 2 && found.Blocks > 0 && !found.Coming:
					j := job{blocks: m.Load(u, from, from+found.Blocks), keys: q.list[from : from+found.Blocks]}
					for i := from; i < from+found.Blocks; i++ {
						p.blocks[q.list[i]].readers++
						p.use(q, i)
					}
					loads = append(loads, j)
				case k == 3 && len(stores) > 0:
					m.Stored(stores[0].blocks)
					for _, key := range stores[0].keys {
						p.blocks[key].ready = true
						p.release(key)
					}
					stores = stores[1:]
				case k == 4 && len(loads) > 0:
					m.Loaded(loads[0].blocks)
					for _, key := range loads[0].keys {
						if p.blocks[key].readers--; p.blocks[key].readers == 0 {
							p.release(key)
						}
					}
					loads = loads[1:]
				case k == 5 && ranked:
					m.End(u)
					u.Reset()
					p.end(q)
				case k == 5:
					m.Touch(u, len(q.list))
					p.touch(q)
				}
				m.Check()
			}
		})
	}
}

// TestLink checks that a link runs one transfer after the other.
func TestLink(t *testing.T) {
	l := host.NewLink[string](1e-6) // 1 byte per ms
	l.Submit("a", 10, 5)
	l.Submit("b", 11, 2)
	l.Submit("c", 30, 1)
	if end := l.EndOf("b", 0); end != 17 {
		t.Errorf("b ends at %v, want 17", end)
	}
	if got := l.AppendEnded(nil, 17); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("by 17 %v have ended, want a and b", got)
	}
	if end, ok := l.Next(); !ok || end != 31 {
		t.Errorf("next ends at %v, %v, want 31", end, ok)
	}
}
