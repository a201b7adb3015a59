package sessions

import (
	"maps"
	"slices"

	"github.com/replay-llm/replay/loadgen/formats"
)

// agentsOfAgents finds what agents that were started by others waited for, and
// who waited for them: an agent was started by the last request of the other
// that had begun, and the first one that began after the agent's end had waited
// for it. The requests are made a graph, if one is asked for.
func (d *dynamoRows) agentsOfAgents(graph bool) (spawns, joins int) {
	sessions := make(map[string][]int) // places in all, by start
	for i := range d.All {
		id := string(d.All[i].Session)
		sessions[id] = append(sessions[id], i)
	}
	if graph {
		d.chainSessions(sessions)
	}
	for _, child := range slices.Sorted(maps.Keys(d.parents)) {
		own, others := sessions[child], sessions[d.parents[child]]
		first := &d.All[own[0]]
		if i := lastBefore(others, own[0]); i >= 0 {
			spawns++
			if graph {
				first.After = append(first.After, spawnOf(&d.All[i], first))
			}
		}
		place := slices.MaxFunc(own, func(a, b int) int { return d.All[a].Ended.Compare(d.All[b].Ended) })
		last := &d.All[place]
		for _, i := range others {
			if r := &d.All[i]; i > place && r.When.Compare(last.Ended) >= 0 {
				joins++
				if graph {
					r.After = append(r.After, formats.Edge{Name: last.Name, Relation: "join", Delay: r.When.Since(last.Ended)})
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
			r := &d.All[i]
			if r.Agent = id; k > 0 {
				r.After = append(r.After, formats.Edge{Name: d.All[own[k-1]].Name, Relation: "sequence", Delay: r.Delay})
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
func spawnOf(parent *formats.Record, first *formats.Record) formats.Edge {
	if first.When.Compare(parent.Ended) < 0 {
		return formats.Edge{Name: parent.Name, Dispatch: true, Relation: "spawn", Delay: first.When.Since(parent.When)}
	}
	return formats.Edge{Name: parent.Name, Relation: "spawn", Delay: first.When.Since(parent.Ended)}
}
