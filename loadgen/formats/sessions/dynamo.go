package sessions

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

const dynamoSchema = `"dynamo.request.trace.v1"`

// IsDynamo reports whether a record is an event of a request trace of Dynamo.
func IsDynamo(o *scan.Object) bool {
	return string(o.Find("schema")) == dynamoSchema || string(o.OpenInner("event").Find("schema")) == dynamoSchema
}

// dynamoRows reads request traces of a Dynamo deployment.
type dynamoRows struct {
	formats.Gathered
	seen    map[string]int    // line by request id
	agents  int               // number of requests with an agent context
	parents map[string]string // parent session by session
	block   int
}

// OpenDynamo opens a request trace of Dynamo.
func OpenDynamo(s *formats.Stream) (formats.Reader, error) {
	d := &dynamoRows{Gathered: formats.Gathered{S: s}, seen: make(map[string]int), parents: make(map[string]string)}
	if err := d.EachLine(d.readLine); err != nil {
		return nil, err
	}
	if n := len(d.All); d.agents > 0 && d.agents < n {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("agent_context on %d of %d requests, expected all or none", d.agents, n)}
	}
	if b := s.Options.TraceBlock; b != 0 && b != d.block && d.block != 0 {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("trace block size is %d, must be the %d of the file", b, d.block)}
	}
	s.Block, s.Chained = d.block, d.agents > 0 && s.Options.Sessions != "flat"
	d.sortRequests()
	return d, d.linkAgents()
}

// linkAgents makes a graph or chains from the requests of agents that start other agents.
func (d *dynamoRows) linkAgents() error {
	if len(d.parents) > 0 {
		spawns, joins := d.agentsOfAgents(false)
		if d.S.Options.WantsGraphOf(spawns + joins) {
			d.agentsOfAgents(true)
			return nil
		}
		if err := d.S.RefuseDAG(spawns, joins); err != nil {
			return err
		}
	}
	for i := range d.All {
		d.All[i].Name = "" // without a name, requests are turns and not graph nodes
	}
	return nil
}

func (d *dynamoRows) readLine(event *scan.Fields) error {
	if event.Has("event") {
		event = event.OpenSub("event")
	}
	if string(event.Find("schema")) != dynamoSchema {
		event.Mismatch("schema", event.Find("schema"), dynamoSchema)
	}
	kind := string(event.ReadText("event_type"))
	switch kind {
	case "request_end":
		r := d.readRequest(event)
		if event.Err == nil {
			d.All = append(d.All, r)
		}
	case "tool_end", "tool_error", "request_payload", "tool_start":
	default:
		event.Complain("event_type is %q, must be request_end, request_payload, tool_start, tool_end or tool_error", kind)
	}
	return event.Err
}

func (d *dynamoRows) readRequest(event *scan.Fields) formats.Record {
	r := formats.Record{Line: event.Line}
	q := event.OpenSub("request")
	p := q.OpenSub("replay")
	r.Name = string(q.ReadText("request_id"))
	if line, twice := d.seen[r.Name]; twice {
		q.Complain("request_id %s was on line %d, must be unique", r.Name, line)
	}
	d.seen[r.Name] = r.Line
	r.Arrives(q.NeedStamp("request_received_ms", 6))
	r.Output = q.NeedCount("output_tokens")
	if total, ok := q.ReadStamp("total_time_ms", 6); ok {
		r.Ended = r.When.Plus(total)
	} else {
		r.Ended = event.NeedStamp("event_time_unix_ms", 6)
	}
	r.Input = p.NeedCount("input_length")
	block := p.NeedCount("trace_block_size")
	r.IDs = p.NeedIDs("input_sequence_hashes", "one per block", nil)
	d.checkBlock(p, block, &r)
	d.readContext(event, q, &r)
	return r
}

func (d *dynamoRows) checkBlock(p *scan.Fields, block int, r *formats.Record) {
	switch {
	case p.Err != nil:
	case block == 0:
		p.Complain("%strace_block_size is 0, must be > 0", p.Place)
	case d.block != 0 && block != d.block:
		p.Complain("%strace_block_size is %d, was %d before, must be one size", p.Place, block, d.block)
	case len(r.IDs) != (r.Input+block-1)/block:
		p.Complain("%d hashes for %d tokens of %d, must be %d", len(r.IDs), r.Input, block, (r.Input+block-1)/block)
	default:
		d.block = block
	}
}

// readContext reads the agent of a request.
func (d *dynamoRows) readContext(event, q *scan.Fields, r *formats.Record) {
	a := event.OpenSub("agent_context")
	if len(a.Members) == 0 {
		a = q.OpenSub("agent_context")
	}
	if len(a.Members) == 0 {
		return
	}
	d.agents++
	id := a.ReadText("session_id")
	if id == nil {
		a.Missing("session_id", "a string")
	}
	if parent := a.ReadText("parent_session_id"); parent != nil && id != nil {
		d.parents[string(id)] = string(parent)
	}
	r.Session, r.Group = bytes.Clone(id), bytes.Clone(id)
}

// sortRequests sorts the requests by start, end and id. sortRequests links the requests of each session.
func (d *dynamoRows) sortRequests() {
	sort.SliceStable(d.All, func(i, j int) bool {
		a, b := &d.All[i], &d.All[j]
		return cmp.Or(a.When.Compare(b.When), a.Ended.Compare(b.Ended), strings.Compare(a.Name, b.Name)) < 0
	})
	ends := make(formats.LastEnds)
	for i := range d.All {
		if r := &d.All[i]; r.Session != nil {
			ends.Chain(r, r.Session, r.Ended)
		}
	}
}

// agentsOfAgents determines the parent request that started each sub-agent, and the parent request that waited for
// its end. The first is the parent's last request before the sub-agent's first request. The second is the parent's
// first request after the sub-agent's end. If graph is set, the requests become a graph.
func (d *dynamoRows) agentsOfAgents(graph bool) (spawns, joins int) {
	sessions := make(map[string][]int) // indices in All, sorted by start
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

// chainSessions adds an edge from each request of a session to the next.
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

// rootOf returns the root of the tree of sessions that contains id.
func (d *dynamoRows) rootOf(id string) []byte {
	for range len(d.parents) { // limited, because parents can form a cycle
		parent, ok := d.parents[id]
		if !ok {
			break
		}
		id = parent
	}
	return []byte(id)
}

// lastBefore returns the last of the ascending places that is less than one. lastBefore returns -1 if no place is
// less than one.
func lastBefore(places []int, one int) int {
	n, _ := slices.BinarySearch(places, one)
	if n == 0 {
		return -1
	}
	return places[n-1]
}

// spawnOf returns the edge from parent to the first request of its child. If the parent was complete, the edge starts
// at its completion, otherwise at its start.
func spawnOf(parent *formats.Record, first *formats.Record) formats.Edge {
	if first.When.Compare(parent.Ended) < 0 {
		return formats.Edge{Name: parent.Name, Dispatch: true, Relation: "spawn", Delay: first.When.Since(parent.When)}
	}
	return formats.Edge{Name: parent.Name, Relation: "spawn", Delay: first.When.Since(parent.Ended)}
}
