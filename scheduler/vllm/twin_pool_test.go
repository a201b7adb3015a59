package vllm_test

import "slices"

// twinPool is the blocks that no request holds, the next one to take first, and where content is found.
type twinPool struct {
	free         []*twinBlock
	found        map[twinName][]*twinBlock // in the order they were named
	usable       int
	unnamedFirst bool // released blocks without a name go before all other blocks
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
	group int // of layers
}

func (t *twin) nameOf(r *twinRequest, i, g int) twinName {
	per := t.cfg.Tree.PerNode()
	if t.ahead() {
		if i++; i*t.cfg.BlockTokens < r.InputTokens && !r.Prompt.Unique() {
			return twinName{of: 1 + int64(r.Prompt.Nodes[i/per]), index: i % per, group: g}
		}
		return twinName{own: true, of: 1 + int64(r.ID), index: i, group: g}
	}
	if t.cfg.PrefixCaching && !r.Prompt.Unique() && i < int(r.Prompt.Blocks) {
		return twinName{of: 1 + int64(r.Prompt.Nodes[i/per]), index: i % per, group: g}
	}
	return twinName{own: true, of: 1 + int64(r.ID), index: i, group: g}
}

func (p *twinPool) cached() (n int) {
	for _, b := range p.free {
		if b.name != (twinName{}) {
			n++
		}
	}
	return n
}

// take takes the first block and forgets its content. If blocks without a name are taken first, it is the latest
// released of these, behind the fresh ones.
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
	p.found[b.name] = slices.DeleteFunc(p.found[b.name], func(x *twinBlock) bool { return x == b })
	*b = twinBlock{holders: 1, used: true}
	return b
}

func (p *twinPool) hold(b *twinBlock) {
	if b == nil {
		return
	}
	if b.holders == 0 {
		p.free = slices.DeleteFunc(p.free, func(x *twinBlock) bool { return x == b })
	}
	b.holders++
}

func (p *twinPool) letGo(b *twinBlock) {
	if b == nil {
		return
	}
	if b.holders--; b.holders == 0 {
		p.free = append(p.free, b)
	}
}

// name gives b a name, which other blocks may have too.
func (p *twinPool) name(b *twinBlock, name twinName) {
	if b == nil {
		return
	}
	b.name, p.found[name] = name, append(p.found[name], b)
}
