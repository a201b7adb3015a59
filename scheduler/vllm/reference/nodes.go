package reference

import "github.com/replay-llm/replay/sim/prompt"

// node is the state of one prompt node in an engine: its cached blocks and their holders. A holder holds the first
// blocks of the node, usually all.
type node struct {
	span
	holders int32 // number of requests that hold the whole node
	partial slot  // first request that holds only a part of the node; the list continues with tailNext
}

// nodeOf returns the state of a prompt node, and adds it if there is none. An engine uses few nodes of a long trace
// at a time, and they should be close together in memory. Nodes can move in memory when nodes are added or deleted.
func (p *device) nodeOf(id prompt.NodeID) *node {
	n, entered := p.nodes.Put(id)
	if entered {
		*n = node{span: span{seg: noSeg}, partial: none}
	}
	return n
}

// isEmpty reports whether the node can be deleted.
func (n *node) isEmpty() bool { return n.resident == 0 && n.holders == 0 && n.partial == none }
