package vllm

import "github.com/replay-llm/replay/prompt"

// node is what one engine knows of one prompt node: which of its blocks are
// cached and who holds them. Holders hold the first blocks of a node, mostly
// all of them.
type node struct {
	span
	holders int32 // requests that hold the whole node
	partial slot  // requests that hold only a part of it, linked by tailNext
}

// pageNodes is the number of nodes of a page: paths are made of neighbours.
const pageNodes = 16

// page holds the state of neighbouring nodes. It lives as long as one of them
// has a cached block or a holder.
type page struct {
	live  int
	nodes [pageNodes]node
}

// nodes maps node ids to states, a page at a time: an engine knows few of a
// long trace's nodes at once.
type nodes struct {
	pages  []*page
	unused []*page
	blank  []page // never used yet
}

// printedPages is the number of pages made at a time.
const printedPages = 16

// newNodes returns an empty map for so many nodes, or more.
func newNodes(count int) nodes {
	return nodes{pages: make([]*page, 0, (count+pageNodes-1)/pageNodes)}
}

// at is the state of n, made when there is none; keep or forget it afterwards.
func (t *nodes) at(n prompt.NodeID) *node {
	i := int(n) / pageNodes
	for i >= len(t.pages) {
		t.pages = append(t.pages, nil)
	}
	p := t.pages[i]
	if p == nil {
		p = t.fresh()
		t.pages[i] = p
	}
	return &p.nodes[int(n)%pageNodes]
}

// find is the state of n, nil when the engine knows nothing of it.
func (t *nodes) find(n prompt.NodeID) *node {
	i := int(n) / pageNodes
	if i >= len(t.pages) || t.pages[i] == nil {
		return nil
	}
	return &t.pages[i].nodes[int(n)%pageNodes]
}

func (t *nodes) fresh() *page {
	if k := len(t.unused); k > 0 {
		p := t.unused[k-1]
		t.unused = t.unused[:k-1]
		return p
	}
	if len(t.blank) == 0 {
		t.blank = make([]page, printedPages)
	}
	p := &t.blank[0]
	t.blank = t.blank[1:]
	for i := range p.nodes {
		p.nodes[i] = node{span: span{seg: noSeg}, partial: none}
	}
	return p
}

// keep counts n among the nodes in use.
func (t *nodes) keep(n prompt.NodeID) { t.pages[int(n)/pageNodes].live++ }

// forget takes n, empty again, from the nodes in use.
func (t *nodes) forget(n prompt.NodeID) {
	i := int(n) / pageNodes
	p := t.pages[i]
	if p.live--; p.live == 0 {
		t.pages[i] = nil
		t.unused = append(t.unused, p)
	}
}

// empty says that the engine need not remember the node.
func (n *node) empty() bool { return n.resident == 0 && n.holders == 0 && n.partial == none }
