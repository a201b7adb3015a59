package prompt

import "slices"

// AppendIDs appends to dst the hash ids that cover the given number of first blocks of the path to n, which has at
// least as many. AppendIDs does not support trees that forget, and unique prompts.
func (t *Tree) AppendIDs(dst []uint64, n NodeID, blocks int32) []uint64 {
	tokens := int(blocks) * t.blockTokens
	count := (tokens + t.traceTokens - 1) / t.traceTokens
	if t.perNode == 0 {
		ids, _ := t.source(int(t.owner[n]))
		return append(dst, ids[:count]...)
	}
	from := len(dst)
	path := t.PathTo(n)
	if t.straddle == nil {
		for _, n := range path[:count] {
			dst = append(dst, t.contents.ids[t.content[n]])
		}
		return dst
	}
	at := 0
	for _, n := range path {
		for _, r := range t.straddle.runs[t.content[n]] {
			for at += int(r.tokens); len(dst)-from < count && (len(dst)-from)*t.traceTokens < at; {
				dst = append(dst, r.id)
			}
		}
	}
	return dst
}

// PathTo returns the path that ends with n, which may be None.
func (t *Tree) PathTo(n NodeID) []NodeID {
	var path []NodeID
	for ; n != None; n = t.parent[n] {
		path = append(path, n)
	}
	slices.Reverse(path)
	return path
}

// NodeOf returns the node with the given block on the path to n.
func (t *Tree) NodeOf(n NodeID, block int32) NodeID {
	for t.extents[n].start > block {
		n = t.parent[n]
	}
	return n
}
