package reference

import "github.com/replay-llm/replay/sim/prompt"

// node is the state of one prompt node in an engine: its cached blocks and their holders. Holders hold the first blocks
// of a node, mostly all of them.
type node struct {
	span
	holders int32 // requests that hold the whole node
	partial slot  // requests that hold only a part of it, linked by tailNext
}

// nodeOf returns the state of a prompt node, made when there is none. An engine
// knows few of a long trace's nodes at once, and they had better lie close
// together; so they move when other requests come or leave.
func (p *device) nodeOf(id prompt.NodeID) *node {
	n, entered := p.nodes.Put(id)
	if entered {
		*n = node{span: span{seg: noSeg}, partial: none}
	}
	return n
}

// isEmpty reports whether the engine need not remember the node.
func (n *node) isEmpty() bool { return n.resident == 0 && n.holders == 0 && n.partial == none }
