package formats

import "strconv"

// addEdges makes what requests wait for explicit: the one before, the request of
// another agent that started theirs, the ends of agents that they started.
func (w *wekaRows) addEdges() {
	name := func(c *wekaChain, k int) string { return c.name + "#" + strconv.Itoa(k) }
	for i := range w.chains {
		c := &w.chains[i]
		for k := range c.all {
			r := &c.all[k]
			if r.Name, r.Agent = name(c, k), c.name; k > 0 {
				r.After = append(r.After, Edge{Name: name(c, k-1), Relation: "sequence", Delay: r.Delay})
				r.HasDelay, r.Delay = false, 0
			}
		}
		if c.root == i || len(c.all) == 0 {
			continue
		}
		parent := &w.chains[c.parent]
		if c.after >= 0 {
			start := c.start
			if w.relative {
				start += c.marker
			}
			first := &c.all[0]
			first.After = append(first.After, Edge{Name: name(parent, c.after), Relation: "spawn", Delay: max(0, start-c.ended)})
		}
		if c.waiting >= 0 {
			r := &parent.all[c.waiting]
			r.After = append(r.After, Edge{Name: name(c, len(c.all)-1), Relation: "join", Delay: c.wait})
		}
	}
}
