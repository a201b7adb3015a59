package sglang

import (
	"encoding/binary"
	"slices"
	"sort"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

// literalDefault is the default rules of docs/rules/sglang.md, line by line.
type literalDefault struct {
	literal
	caching bool
	batch   []literalChunk
	off     int
	inLeft  int
	chLeft  int
	held    float64 // the reserve
}

type literalChunk struct {
	r    *literalRequest
	p, c int
}

func newLiteralDefault(c Config, values func(sim.RequestID) []uint64) scheduler.Core {
	l := &literalDefault{literal: newLiteral(c, values, true), caching: c.PrefixCaching}
	l.ratio = l.first()
	return l
}

func (l *literalDefault) first() float64 { return min(float64(0.7*l.Conservativeness), 1.0) }

func (l *literalDefault) account() account {
	_, unlocked, locked := l.tree.sums()
	own := 0
	for _, r := range l.running {
		own += l.own(r)
	}
	if l.partial != nil {
		own += l.own(l.partial)
	}
	return account{l.free, unlocked, locked, own, l.ratio}
}

func (l *literalDefault) own(r *literalRequest) int { return l.ceilP(r.mat) - r.prot }

func (l *literalDefault) evict(n int) {
	if n <= 0 {
		return
	}
	var gone []uint64
	for _, v := range l.tree.evict(n) {
		l.free += len(v.key)
		gone = append(gone, v.hashes...)
	}
	if len(gone) > 0 && l.Capture == scheduler.CaptureEvents {
		l.p.Events = append(l.p.Events, scheduler.KVEvent{Removed: gone})
	}
}

func (l *literalDefault) mem() float64 {
	_, unlocked, _ := l.tree.sums()
	return float64(l.free+unlocked) - l.held - float64(l.off)
}

func (l *literalDefault) room() bool { return l.mem() > 0 && l.inLeft > 0 && l.chLeft > 0 }

func (l *literalDefault) charge(c, o int) {
	l.off += l.ceilP(c) + o + l.PageTokens
	l.inLeft -= l.ceilP(c)
	l.chLeft -= l.ceilP(c)
}

func (l *literalDefault) Step(now, _ sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	l.p = p
	l.passes++
	if l.caching {
		l.lpm(func(r *literalRequest) int { return r.length() - 1 }, 1, false)
	}
	l.sel()
	tot := 0
	for _, b := range l.batch {
		tot += l.ceilP(b.c)
	}
	l.evict(tot - l.free)
	l.free -= tot
	isl, prefix := 0, 0
	for _, b := range l.batch {
		b.r.mat = b.p + b.c
		isl += b.r.mat
		prefix += b.p
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: b.r.ID, Reused: b.r.hit})
		p.PrefillTokens += b.c
	}
	prefill := l.prefillMs(len(l.batch), isl, prefix)
	for _, b := range l.batch {
		l.commit(b.r)
		if b.r.mat < b.r.length() {
			l.partial = b.r
		} else {
			l.running = append(l.running, b.r)
		}
	}
	p.End = now + sim.Time(prefill)
	p.End += sim.Time(l.decodeMs())
	p.Gap = p.End - now
	retracted := l.retract()
	l.decode()
	l.waiting = append(l.waiting, retracted...)
	p.Preempted = len(retracted)
	if l.Load() == 0 {
		l.ratio = l.first()
	}
	return l.stalled()
}

// sel is "Default: selection" of docs/rules/sglang.md.
func (l *literalDefault) sel() {
	l.batch = nil
	l.held = l.reserve()
	l.off, l.inLeft, l.chLeft = 0, l.MaxPrefillTokens, l.floorP(l.ChunkTokens)
	if r := l.partial; r != nil {
		n := r.length() - r.mat
		w := min(l.chLeft, l.floorP(int(max(0, l.mem()))))
		c, o := w, 0
		if l.ceilP(n) <= w {
			c, o = n, min(r.left(), l.ClipNewTokens)
		}
		if c == 0 {
			return
		}
		l.batch = append(l.batch, literalChunk{r, r.mat, c})
		l.partial = nil
		l.charge(c, o)
		if !l.room() {
			return
		}
	}
	for first := true; len(l.waiting) > 0 && (first || l.room()); first = false {
		r := l.waiting[0]
		p, node := 0, l.tree.root
		if l.caching {
			p, node = l.tree.match(r.seq()[:l.floorP(r.length()-1)])
		}
		l.tree.lockPath(node, 1)
		ext, o := r.length()-p, min(r.left(), l.ClipNewTokens)
		idle := len(l.running) == 0 && len(l.batch) == 0 && l.partial == nil
		c := ext
		switch {
		case float64(ext+o+l.PageTokens) >= l.mem() && !idle:
			c = 0
		case l.ceilP(ext) <= l.chLeft:
		case l.chLeft > 0:
			c, o = l.chLeft, 0
		default:
			c = 0
		}
		if c == 0 {
			l.tree.lockPath(node, -1)
			return
		}
		l.waiting = l.waiting[1:]
		r.node, r.prot = node, p
		if r.hit < 0 {
			r.hit = p
		}
		l.batch = append(l.batch, literalChunk{r, p, c})
		l.charge(c, o)
	}
}

func (l *literalDefault) insert(r *literalRequest, k int) (int, *literalNode) {
	m, node, leaf := l.tree.insert(r.seq()[:k], nil)
	if leaf != nil {
		l.announce(r, m, leaf)
	}
	return m, node
}

// announce gives leaf, which begins at token m of r, its hashes.
func (l *literalDefault) announce(r *literalRequest, m int, leaf *literalNode) {
	e := scheduler.KVEvent{HasParent: m > 0}
	if m > 0 {
		e.Parent = leaf.parent.hashes[len(leaf.parent.hashes)-1]
	}
	last := e.Parent
	for at := m; at < m+len(leaf.key); at += l.PageTokens {
		b := l.pageHash(r, at)
		if at > 0 {
			last = blockhash.Chain(last, b)
		} else {
			last = b
		}
		leaf.hashes = append(leaf.hashes, last)
		e.Stored = append(e.Stored, scheduler.KVBlock{Seq: last, Tokens: b})
	}
	if l.Capture == scheduler.CaptureEvents {
		l.p.Events = append(l.p.Events, e)
	}
}

func (l *literalDefault) pageHash(r *literalRequest, at int) uint64 {
	var tokens []uint32
	for i, v := range r.seq()[at : at+l.PageTokens] {
		if at+i >= len(r.prompt) {
			return blockhash.Bytes(binary.LittleEndian.AppendUint64([]byte("gen"), v))
		}
		tokens = append(tokens, uint32(v))
	}
	return blockhash.Tokens(tokens)
}

func (l *literalDefault) commit(r *literalRequest) {
	if k := l.floorP(r.mat); l.caching && k > r.prot {
		m, nd := l.insert(r, k)
		l.free += m - r.prot
		l.tree.lockPath(nd, 1)
		l.tree.lockPath(r.node, -1)
		r.node, r.prot = nd, k
	}
}

func (l *literalDefault) finish(r *literalRequest) {
	if !l.caching {
		l.free += l.ceilP(r.mat)
		return
	}
	k, m := l.floorP(r.mat), 0
	if k > 0 {
		m, _ = l.insert(r, k)
	}
	l.free += (m - r.prot) + (l.ceilP(r.mat) - k)
	l.tree.lockPath(r.node, -1)
}

func (l *literalDefault) drop(r *literalRequest) {
	l.free += l.own(r)
	l.tree.lockPath(r.node, -1)
	r.mat, r.prot, r.node = 0, 0, l.tree.root
}

func (l *literalDefault) short() bool {
	need := 0
	for _, r := range l.running {
		if r.mat%l.PageTokens == 0 {
			need += l.PageTokens
		}
	}
	l.evict(need - l.free)
	return l.free < need
}

func (l *literalDefault) retract() (retracted []*literalRequest) {
	if len(l.running) == 0 {
		return nil
	}
	least := min(float64(l.first()*0.14), 1.0)
	if !l.short() {
		l.ratio = max(l.ratio-float64(l.first()-least)/600.0, least)
		return nil
	}
	sort.SliceStable(l.running, func(i, j int) bool {
		a, b := l.running[i], l.running[j]
		if len(a.out) != len(b.out) {
			return len(a.out) > len(b.out)
		}
		return len(a.prompt) < len(b.prompt)
	})
	for len(l.running) > 1 {
		last := len(l.running) - 1
		r := l.running[last]
		l.running = l.running[:last]
		l.drop(r)
		retracted = append(retracted, r)
		if !l.short() {
			break
		}
	}
	if len(l.running) == 1 && l.short() {
		l.drop(l.partial)
		l.waiting = slices.Insert(l.waiting, 0, l.partial)
		l.partial = nil
		if l.short() {
			panic("literal: one request left and still no room")
		}
	}
	outs, asked := 0, 0
	for _, r := range l.running {
		outs += len(r.out)
		asked += max(1, r.maxOut)
	}
	l.ratio = min(1.0, float64(outs+20*len(l.running))/float64(asked+1))
	return retracted
}

func (l *literalDefault) decode() {
	l.running = slices.DeleteFunc(l.running, func(r *literalRequest) bool {
		if r.mat%l.PageTokens == 0 {
			l.free -= l.PageTokens
		}
		if l.token(r) {
			l.finish(r)
			return true
		}
		return false
	})
}

// The core under the default rules does in every pass what the rules say,
// and every run ends.
func TestDefaultEqualsLiteral(t *testing.T) {
	n := 400
	if testing.Short() {
		n = 100
	}
	s := duels(t, DefaultRules(), n, newLiteralDefault, func(m scheduler.Core) account { return m.(*literalDefault).account() })
	t.Logf("%+v", s)
	if s.stalls > 0 || s.retracted < n || s.reused == 0 || s.gaps < n || s.removed < n {
		t.Errorf("a run stalled, or too little happened: %+v", s)
	}
}
