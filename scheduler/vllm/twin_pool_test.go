package vllm_test

import "slices"

// twinPool is the free blocks in order of allocation, and the named blocks.
type twinPool struct {
	free         []*twinBlock
	found        map[twinName][]*twinBlock // blocks by name, in order of naming
	usable       int
	unnamedFirst bool // unnamed blocks are allocated before all other blocks
}

// twinBlock is a KV block. A block that was never used has no release.
type twinBlock struct {
	holders int
	name    twinName
	used    bool
}

// twinName identifies the content of a block: a prompt node and a block of it, or a request and a block of it. The
// zero value means no name.
type twinName struct {
	own   bool
	of    int64 // 1 + id of the node or request
	index int
	group int // group of layers
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

// take allocates the first block and forgets its content. If unnamed blocks are allocated first, take prefers fresh
// blocks, then the unnamed block that was released last.
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

func (p *twinPool) dropHolder(b *twinBlock) {
	if b == nil {
		return
	}
	if b.holders--; b.holders == 0 {
		p.free = append(p.free, b)
	}
}

// name gives b a name, which other blocks may also have.
func (p *twinPool) name(b *twinBlock, name twinName) {
	if b == nil {
		return
	}
	b.name, p.found[name] = name, append(p.found[name], b)
}
