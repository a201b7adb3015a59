package reference

import (
	"fmt"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// FuzzTree applies operations, given as bytes, to a radix tree and to a literal implementation of the rules, which
// stores token values.
func FuzzTree(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03"))
	f.Add([]byte("\x03\x10\x21\x32\x43\x54\x05\x16\x27\x38\x49\x5a\x6b\x7c\x8d\x9e\xaf\xb0\xc1\xd2\xe3\xf4"))
	f.Add([]byte("\x02\x01\x05\x01\x09\x01\x07\x02\x05\x03\x03\x01\x0f\x05\x04\x00\x09\x05\x63\x04\x00\x05\xff\x01\x05"))
	f.Add([]byte("\x04\x01\x00\x01\x09\x01\x1b\x00\x36\x01\x12\x05\x02\x00\x03\x05\x01\x01\x05\x05\x02\x05\x63"))
	f.Add([]byte("\x05\x01\x00\x01\x09\x02\x1b\x00\x36\x01\x12\x05\x02\x00\x03\x05\x01\x04\x05\x05\x02\x05\x63"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 || len(data) > 600 {
			return
		}
		p := newTreePair(data[0])
		for ops := data[1:]; len(ops) >= 2 && !t.Failed(); ops = ops[2:] {
			did := p.do(int(ops[0]), int(ops[1]))
			if d := p.difference(); d != "" {
				t.Fatalf("%s: %s", did, d)
			}
		}
	})
}

// treePair is a tree and its literal twin.
type treePair struct {
	tree *radix.Tree
	twin *literalTree
	seqs []treeSequence
	held []heldNode
}

// treeSequence is a sequence in the forms of the tree and of its twin.
type treeSequence struct {
	seq   radix.Sequence
	pages int32
	key   []uint64
}

// heldNode is a locked node.
type heldNode struct {
	node int32
	twin *literalNode
}

// newTreePair makes two trees and 27 sequences with three different beginnings.
func newTreePair(how byte) *treePair {
	page, trace := 1, 1
	if how&1 != 0 {
		page, trace = 2, 6 // three pages per prompt node
	}
	prompts := prompt.NewTree(trace, page, prompt.Options{})
	p := &treePair{tree: radix.New(prompts.PerNode()), twin: newLiteralTree(page)}
	stamps := how&4 != 0 // true as under SGLang's own rules
	p.tree.StampSplits, p.twin.stampSplits = stamps, stamps
	for i := range 27 {
		ids := []uint64{uint64(i % 3), uint64(i / 3 % 3), uint64(i / 9)}
		r := sim.Request{ID: sim.RequestID(i), InputTokens: 3*trace - i%2}
		r.Prompt = prompts.Add(ids, r.InputTokens)
		s := treeSequence{seq: radix.NewSequence(&r), pages: int32(3*trace/page + 2)}
		full := int(s.seq.Full) * page
		s.key = prompts.AppendTokens(&r.Prompt, r.InputTokens, nil)[:full]
		for len(s.key) < int(s.pages)*page { // the answer is unique to the sequence
			s.key = append(s.key, uint64(1000+i))
		}
		p.seqs = append(p.seqs, s)
	}
	return p
}

// do applies one operation to both trees.
func (p *treePair) do(op, with int) string {
	s := &p.seqs[with%len(p.seqs)]
	pages := s.pages - int32(with/len(p.seqs))%s.pages
	key := s.key[:int(pages)*p.twin.page]
	switch op % 6 {
	case 0:
		got, _ := p.tree.Match(&s.seq, pages)
		want, _ := p.twin.match(key)
		return p.agree(fmt.Sprintf("match %v", key), int(got)*p.twin.page, want)
	case 1, 2:
		got, node := p.tree.Insert(&s.seq, pages)
		want, twin, _ := p.twin.insert(key, nil)
		if op%6 == 2 && node != radix.Root {
			p.lock(node, twin)
		}
		return p.agree(fmt.Sprintf("insert %v, lock %v", key, op%6 == 2), int(got)*p.twin.page, want)
	case 3:
		got, node := p.tree.Match(&s.seq, pages)
		want, twin := p.twin.match(key)
		if node != radix.Root {
			p.lock(node, twin)
		}
		return p.agree(fmt.Sprintf("match and lock %v", key), int(got)*p.twin.page, want)
	case 4:
		if len(p.held) > 0 {
			i := with % len(p.held)
			p.tree.Unlock(p.held[i].node)
			p.twin.lockPath(p.held[i].twin, -1)
			p.held = slices.Delete(p.held, i, i+1)
		}
		return "unlock"
	}
	want := 0
	for _, n := range p.twin.evict(with * p.twin.page) {
		want += len(n.key)
	}
	return p.agree(fmt.Sprintf("evict %d pages", with), p.tree.Evict(with)*p.twin.page, want)
}

func (p *treePair) lock(node int32, twin *literalNode) {
	p.tree.Lock(node)
	p.twin.lockPath(twin, 1)
	p.held = append(p.held, heldNode{node, twin})
}

// agree panics if the results of an operation differ.
func (p *treePair) agree(did string, got, want int) string {
	if got != want {
		panic(fmt.Sprintf("%s: %d tokens, want %d", did, got, want))
	}
	return did
}

// difference returns a difference of the cached content or of the counters, or "".
func (p *treePair) difference() string {
	p.tree.Check()
	for i := range p.seqs {
		s := &p.seqs[i]
		got, want := int(p.tree.Lookup(&s.seq, s.pages))*p.twin.page, p.twin.lookup(s.key)
		if got != want {
			return fmt.Sprintf("%d tokens of %v are cached, want %d", got, s.key, want)
		}
	}
	leaves, unlocked, locked := p.twin.sums()
	page := p.twin.page
	if t := p.tree; t.LeafPages*page != leaves || t.UnlockedPages*page != unlocked || t.Pages*page != unlocked+locked {
		return fmt.Sprintf("%d tokens in leaves, %d unlocked, %d in all, want %d, %d, %d",
			t.LeafPages*page, t.UnlockedPages*page, t.Pages*page, leaves, unlocked, unlocked+locked)
	}
	return ""
}
