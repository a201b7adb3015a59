package inspect

import "github.com/replay-llm/replay/loadgen/formats"

// Graph is what requests wait for, where they name others.
type Graph struct {
	Waiting int64 `json:"waiting_requests"` // that wait for others
	Joins   int64 `json:"joins"`            // of them, for several
	Widest  int   `json:"most_waiting"`     // requests that wait for one
	Deepest int   `json:"longest_chain"`    // requests of which each waits for the one before

	nodes map[string]node
}

// node is what is known of a request that others may wait for.
type node struct{ depth, heirs int }

// add counts a request, which comes after all that it waits for.
func (g *Graph) add(r *formats.Record) {
	if g.nodes == nil {
		g.nodes = make(map[string]node)
	}
	depth := 1
	for _, e := range r.After {
		before := g.nodes[e.Name]
		before.heirs++
		g.nodes[e.Name] = before
		depth = max(depth, before.depth+1)
		g.Widest = max(g.Widest, before.heirs)
	}
	if len(r.After) > 0 {
		g.Waiting++
	}
	if len(r.After) > 1 {
		g.Joins++
	}
	g.Deepest = max(g.Deepest, depth)
	g.nodes[r.Name] = node{depth: depth}
}
