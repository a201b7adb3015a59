package vllm_test

import "slices"

// twinPool is the blocks that nobody holds, the one to be taken next first, and
// where content is found.
type twinPool struct {
	free         []*twinBlock
	found        map[twinName]*twinBlock
	usable       int
	unnamedFirst bool // released blocks without a name go before all others
}

// twinBlock is a KV block; one that was never used has no release.
type twinBlock struct {
	holders int
	name    twinName
	used    bool
}

// twinName is content: a node of the tree of prompts and a block of it, or the
// block of a request that has no other name. The zero value is none.
type twinName struct {
	own   bool
	of    int64 // 1 + node or request
	index int
}

func (t *twin) nameOf(r *twinRequest, i int) twinName {
	if t.cfg.PrefixCaching && !r.Prompt.Unique() && i < int(r.Prompt.Blocks) {
		per := t.cfg.Tree.PerNode()
		return twinName{of: 1 + int64(r.Prompt.Nodes[i/per]), index: i % per}
	}
	return twinName{own: true, of: 1 + int64(r.ID), index: i}
}

// hits returns the first blocks of r that are found, at most so many.
func (t *twin) hits(r *twinRequest, most int) (hits []*twinBlock) {
	for i := 0; i < most && t.cfg.PrefixCaching; i++ {
		name := t.nameOf(r, i)
		b := t.pool.found[name]
		if name.own {
			if b = nil; i < len(r.former) {
				b = r.former[i]
			}
		}
		if b == nil || b.name != name {
			break
		}
		hits = append(hits, b)
	}
	return hits
}

func (p *twinPool) cached() (n int) {
	for _, b := range p.free {
		if b.name != (twinName{}) {
			n++
		}
	}
	return n
}

// take takes the first block, whose content is forgotten. Where blocks without
// a name go first, it is the latest of these that was used, behind the fresh
// ones.
func (p *twinPool) take() *twinBlock {
	at := 0
	if p.unnamedFirst && p.free[0].used {
		for i, b := range p.free {
			if b.name == (twinName{}) {
				at = i
			}
		}
	}
	b := p.free[at]
	p.free = slices.Delete(p.free, at, at+1)
	if p.found[b.name] == b {
		delete(p.found, b.name)
	}
	*b = twinBlock{holders: 1, used: true}
	return b
}

func (p *twinPool) hold(b *twinBlock) {
	if b.holders == 0 {
		p.free = slices.DeleteFunc(p.free, func(x *twinBlock) bool { return x == b })
	}
	b.holders++
}

func (p *twinPool) letGo(b *twinBlock) {
	if b.holders--; b.holders == 0 {
		p.free = append(p.free, b)
	}
}

// name gives b a name unless another block has it.
func (p *twinPool) name(b *twinBlock, name twinName) {
	if !name.own && p.found[name] != nil {
		return
	}
	b.name, p.found[name] = name, b
}
