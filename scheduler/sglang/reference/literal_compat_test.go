package reference

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/sim"
)

// literalCompat implements the reference's rules of docs/rules/sglang.md line by line.
type literalCompat struct {
	literal
	stack    []int32
	slotHash map[int32]uint64
	hashRefs map[uint64]int
}

func newLiteralCompat(c sglang.Config, values func(sim.RequestID) []uint64) scheduler.Core {
	l := &literalCompat{literal: newLiteral(c, values), slotHash: map[int32]uint64{}, hashRefs: map[uint64]int{}}
	l.ratio = float64(0.7 * c.Conservativeness)
	for i := l.capacity() - 1; i >= 0; i-- {
		l.stack = append(l.stack, int32(i))
	}
	return l
}

func (l *literalCompat) account() account {
	leaves, _, locked := l.tree.sums()
	return account{len(l.stack), leaves, locked, l.ratio}
}

func (l *literalCompat) evictable() int { n, _, _ := l.tree.sums(); return n }

func (r *literalRequest) slack() int { return max(0, r.alloc-len(r.slots)) }

func (l *literalCompat) allocate(n int) ([]int32, bool) {
	if n > len(l.stack) {
		return nil, false
	}
	at := len(l.stack) - n
	got := slices.Clone(l.stack[at:])
	l.stack = l.stack[:at]
	return got, true
}

func (l *literalCompat) evict(n int) {
	var victims []int32
	for _, v := range l.tree.evict(n) {
		victims = append(victims, v.slots...)
	}
	l.stack = append(l.stack, victims...)
	l.removed(victims)
}

func (l *literalCompat) freeSlots(slots []int32) {
	l.stack = append(l.stack, slots...)
	l.removed(slots)
}

func (l *literalCompat) storedEvent(tokens []uint64, slots []int32, before []int32) {
	var parent uint64
	has := false
	if len(before) > 0 {
		parent, has = l.slotHash[before[len(before)-1]]
	}
	var blocks []scheduler.KVBlock
	prev := parent
	for i, v := range tokens {
		prev = sipChain(prev, tokenHash(v))
		blocks = append(blocks, scheduler.KVBlock{Seq: prev, Tokens: tokenHash(v)})
		l.slotHash[slots[i]] = prev
		l.hashRefs[prev]++
	}
	f := slices.IndexFunc(blocks, func(b scheduler.KVBlock) bool { return l.hashRefs[b.Seq] == 1 })
	if f < 0 || l.Capture != scheduler.CaptureEvents {
		return
	}
	if f > 0 {
		parent, has = blocks[f-1].Seq, true
	}
	l.p.Events = append(l.p.Events, scheduler.KVEvent{Parent: parent, HasParent: has, Stored: blocks[f:], Rank: l.Rank})
}

func (l *literalCompat) removed(slots []int32) {
	var list []uint64
	for _, s := range slots {
		h, ok := l.slotHash[s]
		delete(l.slotHash, s)
		if n := l.hashRefs[h]; !ok || n == 0 {
			continue
		} else if n > 1 {
			l.hashRefs[h]--
			continue
		}
		delete(l.hashRefs, h)
		list = append(list, h)
	}
	if len(list) > 0 && l.Capture == scheduler.CaptureEvents {
		l.p.Events = append(l.p.Events, scheduler.KVEvent{Removed: list, Rank: l.Rank})
	}
}

func (l *literalCompat) Step(now, _ sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	l.p = p
	l.passes++
	first := float64(0.7 * l.Conservativeness)
	least := float64(first * 0.14)
	step := float64(first-least) / 600.0
	l.lpm(func(r *literalRequest) int { return r.length() }, l.PageTokens, true)
	batch, isl, prefix, oom := l.admit()
	if oom {
		l.ratio = first
	}
	prefill := l.prefillMs(len(batch), isl, prefix)
	for _, r := range batch {
		if r.mat < r.length() {
			l.commit(r)
			l.waiting = slices.Insert(l.waiting, 0, r)
		} else {
			l.running = append(l.running, r)
		}
	}
	p.End = now + sim.Time(prefill)
	p.End += sim.Time(l.decodeMs())
	p.Gap = p.End - now
	var retracted []*literalRequest
	if len(l.running) > 0 {
		retracted = l.makeRoom()
		l.decode()
	}
	for _, r := range slices.Backward(retracted) {
		l.waiting = slices.Insert(l.waiting, 0, r)
	}
	p.Preempted = len(retracted)
	if len(retracted) > 0 {
		l.ratio = first
	}
	l.ratio = max(l.ratio-step, least)
	return l.stalled()
}

func (l *literalCompat) admit() (batch []*literalRequest, isl, prefix int, oom bool) {
	reserve := l.reserve()
	over := 0
	for _, r := range slices.Concat(l.waiting, l.running) {
		over += r.slack()
	}
	mem := float64(max(0, len(l.stack)+l.evictable()-over)) - reserve
	inLeft, chLeft := float64(l.MaxPrefillTokens), float64(l.ChunkTokens)
	for len(l.waiting) > 0 {
		r := l.waiting[0]
		n := max(0, r.length()-r.mat)
		if n == 0 || float64(n+min(r.left(), l.ClipNewTokens)) >= mem {
			return
		}
		c := n
		if n > l.ChunkTokens {
			if c = min(l.floorP(int(chLeft)), n); l.floorP(int(chLeft)) == 0 {
				return
			}
		}
		charge := float64(l.ceilP(c))
		if charge > inLeft || charge > chLeft {
			return
		}
		e := r.mat + c
		if len(l.stack) < c {
			l.evict(c - len(l.stack))
		}
		p := r.mat
		node := r.node
		path := slices.Clone(r.slots)
		if r.mat == 0 {
			p, node = l.tree.match(r.seq()[:e])
			path = nil
			for x := node; x != l.tree.root; x = x.parent {
				path = append(slices.Clone(x.slots), path...)
			}
		}
		fresh, ok := l.allocate(e - p)
		if !ok {
			return batch, isl, prefix, true
		}
		if r.mat == 0 {
			l.tree.lockPath(node, 1)
		}
		r.slots = append(path, fresh...)
		l.storedEvent(r.seq()[p:e], fresh, r.slots[:p])
		old := r.alloc
		r.node, r.mat, r.alloc = node, e, l.ceilP(e)
		l.p.Admitted = append(l.p.Admitted, scheduler.Admission{Request: r.ID, Reused: p})
		l.p.PrefillTokens += e - p
		out := min(r.left(), l.ClipNewTokens)
		if e < r.length() {
			out = 0
		}
		mem -= float64(r.alloc - old + out)
		inLeft -= charge
		chLeft -= charge
		isl += e
		prefix += p
		batch = append(batch, r)
		l.waiting = l.waiting[1:]
		if chLeft <= 0 {
			return
		}
	}
	return
}

func (l *literalCompat) makeRoom() (retracted []*literalRequest) {
	for {
		total := len(l.stack) + l.evictable()
		over, growth := 0, 0
		for _, r := range l.running {
			over += r.slack()
			if r.length()+1 > r.alloc {
				growth += l.PageTokens
			}
		}
		if total >= len(l.running) && max(0, total-over)-growth > 0 || len(l.running) <= 1 {
			break
		}
		i := 0
		for k, r := range l.running {
			if len(r.out) < len(l.running[i].out) {
				i = k
			}
		}
		r := l.running[i]
		l.running[i] = l.running[len(l.running)-1]
		l.running = l.running[:len(l.running)-1]
		l.freeSlots(r.slots[r.cached:])
		l.tree.lockPath(r.node, -1)
		r.slots, r.mat, r.cached, r.alloc, r.node = nil, 0, 0, 0, nil
		retracted = append(retracted, r)
	}
	if need := len(l.running); len(l.stack) < need {
		l.evict(need - len(l.stack))
	}
	return retracted
}

func (l *literalCompat) decode() {
	var finished []int
	for i, r := range l.running {
		if len(l.stack) == 0 {
			l.evict(1)
		}
		cross := r.length()+1 > r.alloc
		slot, ok := l.allocate(1)
		if !ok {
			continue
		}
		l.storedEvent([]uint64{uint64(slot[0])}, slot, r.slots)
		r.slots = append(r.slots, slot...)
		if cross {
			r.alloc += l.PageTokens
		}
		if !l.token(r) {
			l.commit(r)
			continue
		}
		k := l.floorP(r.length())
		l.freeSlots(r.slots[k:])
		if k > 0 {
			l.tree.insert(r.seq()[:k], r.slots[:k])
		}
		l.tree.lockPath(r.node, -1)
		finished = append(finished, i)
	}
	for _, i := range slices.Backward(finished) {
		last := len(l.running) - 1
		l.running[i] = l.running[last]
		l.running = l.running[:last]
	}
}

func (l *literalCompat) commit(r *literalRequest) {
	k := l.floorP(r.mat)
	if k == 0 || k <= r.cached {
		return
	}
	l.tree.insert(r.seq()[:k], r.slots[:k])
	_, nd := l.tree.match(r.seq()[:k])
	l.tree.lockPath(r.node, -1)
	l.tree.lockPath(nd, 1)
	r.node, r.cached = nd, k
}

// With compat, the core equals the literal implementation in every pass.
func TestCompatEqualsLiteral(t *testing.T) {
	n := 800
	if testing.Short() {
		n = 200
	}
	s := duels(t, n, newLiteralCompat, func(m scheduler.Core) account { return m.(*literalCompat).account() })
	t.Logf("%+v", s)
	if s.stalls == 0 || s.retracted < n/10 || s.reused == 0 || s.gaps < n/20 || s.removed < n {
		t.Errorf("too little happened: %+v", s)
	}
}
