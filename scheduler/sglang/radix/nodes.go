package radix

import "github.com/replay-llm/replay/sim/prompt"

// Nodes calls need with the last prompt node of each tree node.
func (t *Tree) Nodes(need func(prompt.NodeID)) {
	for _, x := range t.All() {
		s := &x.Seq
		if end := min(x.To, s.Full); s.Seed == 0 && end > x.From {
			need(s.Nodes[min((end-1+s.Pairs)/t.PerNode, int32(len(s.Nodes))-1)])
		}
	}
}
