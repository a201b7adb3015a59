package formats

import "slices"

// agentsOfAgents finds what agents that were started by others waited for, and
// who waited for them: an agent was started by the last request of the other
// that had begun, and the first one that began after the agent's end had waited
// for it. The requests are given as a graph, if one is asked for.
func (d *dynamoRows) agentsOfAgents() (spawns, joins int) {
	sessions := make(map[string][]int) // places in calls, by start
	for i := range d.calls {
		id := string(d.calls[i].rec.Session)
		sessions[id] = append(sessions[id], i)
	}
	graph := d.s.o.graph()
	if graph {
		d.chainSessions(sessions)
	}
	var children []string
	for child := range d.parents {
		children = append(children, child)
	}
	slices.Sort(children)
	for _, child := range children {
		own, others := sessions[child], sessions[d.parents[child]]
		first := &d.calls[own[0]]
		if i := lastBefore(others, own[0]); i >= 0 {
			spawns++
			if graph {
				first.rec.After = append(first.rec.After, spawnOf(&d.calls[i], &first.rec))
			}
		}
		place := slices.MaxFunc(own, func(a, b int) int { return d.calls[a].rec.ended.compare(d.calls[b].rec.ended) })
		last := &d.calls[place]
		for _, i := range others {
			if r := &d.calls[i].rec; i > place && r.when.compare(last.rec.ended) >= 0 {
				joins++
				if graph {
					r.After = append(r.After, Edge{Name: last.id, Relation: "join", Delay: r.when.since(last.rec.ended)})
				}
				break
			}
		}
	}
	return spawns, joins
}

// chainSessions makes the requests of sessions wait for each other by edges.
func (d *dynamoRows) chainSessions(sessions map[string][]int) {
	for id, own := range sessions {
		root := d.rootOf(id)
		for k, i := range own {
			r := &d.calls[i].rec
			if r.Name, r.Agent = d.calls[i].id, id; k > 0 {
				r.After = append(r.After, Edge{Name: d.calls[own[k-1]].id, Relation: "sequence", Delay: r.Delay})
			}
			r.Group, r.Session, r.HasDelay, r.Delay = root, nil, false, 0
		}
	}
}

// rootOf is the session that started the session that started the session.
func (d *dynamoRows) rootOf(id string) []byte {
	for range len(d.parents) { // at most: parents may go in a circle
		parent, ok := d.parents[id]
		if !ok {
			break
		}
		id = parent
	}
	return []byte(id)
}

// lastBefore is the last of ascending places before one, -1 without any.
func lastBefore(places []int, one int) int {
	n, _ := slices.BinarySearch(places, one)
	if n == 0 {
		return -1
	}
	return places[n-1]
}

// spawnOf is the edge to a child's first request: from the completion of the
// parent's where that was over, from its start otherwise.
func spawnOf(parent *call, first *Record) Edge {
	if first.when.compare(parent.rec.ended) < 0 {
		return Edge{Name: parent.id, Dispatch: true, Relation: "spawn", Delay: first.when.since(parent.rec.when)}
	}
	return Edge{Name: parent.id, Relation: "spawn", Delay: first.when.since(parent.rec.ended)}
}
