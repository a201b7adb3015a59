package formats

import (
	"cmp"
	"fmt"
)

func isGraph(o *object) bool { return string(o.find("schema")) == `"dynamo.agentic_mooncake"` }

func isGraphV1(o *object) bool {
	return o.has("request_id") && o.has("wait_for", "branches", "prefix_reset", "tool_wait_ms", "tool_events")
}

// graphRows reads agentic_mooncake, in which requests name those they wait for.
type graphRows struct {
	gathered
	v2    bool
	local bool // ids mean something inside one play only
	nodes []graphNode
	named map[string]int // place in nodes
	ids   numbers[scoped]
	key   string // of the waits of a row, in messages; "": wait_for
}

type graphNode struct {
	rec     Record
	id      string
	play    string
	session string
	waits   []Edge
	starts  []string // requests that it spawns; version 1 only
	next    int      // the node that follows in its chain, -1
	chained bool
}

func openGraph(s *Stream) (rows, error) {
	g := &graphRows{gathered: gathered{s: s}, named: make(map[string]int), ids: make(numbers[scoped])}
	first := true
	err := g.eachLine(func(f *fields) error {
		header := first && f.has("schema", "version")
		if first = false; header {
			return g.readHeader(f)
		}
		g.readNode(f)
		return nil
	})
	if err != nil || len(g.bad) > 0 && s.o.stops() {
		return g, err
	}
	s.Chained = true
	g.s.shape.inexact = true
	if err := g.linkBranches(); err != nil {
		return g, err
	}
	if err := g.findCycle(); err != nil {
		return g, err
	}
	if s.o.graph() {
		g.addWhole()
		return g, nil
	}
	return g, g.linkChains()
}

func (g *graphRows) readHeader(f *fields) error {
	g.v2 = true
	if n, ok := f.readInteger("version"); f.err == nil && (!ok || n != 2) {
		f.mismatch("version", f.value("version"), "2")
	}
	block, ok := f.readCount("block_size")
	if f.err == nil && (!ok || block == 0) {
		f.complain("block_size is %d, want > 0", block)
	}
	g.s.Block = block
	g.local = string(f.readText("hash_id_scope")) == "local"
	if f.err != nil {
		return &fatalError{g.s.lines.errorf("%v", f.err)}
	}
	return nil
}

// readNode reads a row.
func (g *graphRows) readNode(f *fields) {
	n := graphNode{id: string(f.readText("request_id")), next: -1, rec: Record{Line: f.line}}
	if !f.has("request_id") {
		f.missing("request_id", "a string")
	}
	n.session, n.play = string(f.readName("session_id")), string(f.readText("play_id"))
	if at, twice := g.named[n.id]; twice {
		f.complain("request_id %s was on line %d, want each once", n.id, g.nodes[at].rec.Line)
	}
	n.rec.Input = f.needCount("input_length", "input_tokens")
	n.rec.Output = f.needCount("output_length", "output_tokens")
	n.rec.IDs = f.needIDs("hash_ids", "one per block", nil)
	if g.local {
		replaceScoped(g.ids, n.play, n.rec.IDs)
	}
	if g.v2 {
		n.waitsV2(f)
	} else {
		n.waitsV1(f)
	}
	if f.err == nil {
		g.named[n.id] = len(g.nodes)
		g.nodes = append(g.nodes, n)
	}
}

func (n *graphNode) waitsV1(f *fields) {
	if at, ok := f.readStamp("timestamp", 6); ok {
		n.rec.arrives(at)
	}
	delay, _ := f.readFloat("delay", "delay_ms")
	tool, _ := f.readFloat("tool_wait_ms")
	if delay < 0 || tool < 0 {
		f.complain("delay is %v and tool_wait_ms is %v, want >= 0", delay, tool)
	}
	for _, id := range f.readRequests("wait_for") {
		n.waits = append(n.waits, Edge{Name: id, Relation: "sequence", Delay: delay + tool})
	}
	n.starts = f.readRequests("branches")
}

// readRequests is a list of request ids.
func (f *fields) readRequests(key string) (ids []string) {
	for i, v := range f.readList(key) {
		if v[0] != '"' {
			f.mismatch(fmt.Sprintf("%s[%d]", key, i), v, "a request id")
			return nil
		}
		ids = append(ids, string(unquoteString(v)))
	}
	return ids
}

func (n *graphNode) waitsV2(f *fields) {
	n.rec.arrives(f.needStamp("not_before_ms", 6))
	for _, d := range f.elements("dependencies") {
		id := d.readText("request_id")
		delay, _ := d.readFloat("delay_ms")
		if delay < 0 {
			d.complain("%sdelay_ms is %v, want >= 0", d.place, delay)
		}
		trigger, relation := string(d.readText("trigger")), string(d.readText("relation"))
		if trigger != "completion" && trigger != "dispatch" {
			d.complain("%strigger is %q, want dispatch or completion", d.place, trigger)
		}
		if relation != "sequence" && relation != "spawn" && relation != "join" && relation != "replay_barrier" {
			d.complain("%srelation is %q, want sequence, spawn, join or replay_barrier", d.place, relation)
		}
		n.waits = append(n.waits, Edge{string(id), trigger == "dispatch", relation, delay})
	}
}

func (n *graphNode) group() string { return n.play + "/" + n.session }

// linkBranches checks the names of others and turns branches into waits of those
// that are started.
func (g *graphRows) linkBranches() error {
	for i := range g.nodes {
		n := &g.nodes[i]
		for _, id := range n.starts {
			at, ok := g.named[id]
			if !ok {
				return rowAt(g.s.Name, n.rec.Line, fmt.Errorf("branches names %s, which is not in the file; want a request of it", id))
			}
			g.nodes[at].startedBy(n)
		}
	}
	for i := range g.nodes {
		n := &g.nodes[i]
		for k := range n.waits {
			w := &n.waits[k]
			at, ok := g.named[w.Name]
			if !ok {
				return rowAt(g.s.Name, n.rec.Line, fmt.Errorf("%s names %s, which is not in the file; want a request of it", cmp.Or(g.key, "wait_for"), w.Name))
			}
			if !g.v2 && len(n.waits) > 1 && w.Relation == "sequence" && g.nodes[at].session != n.session {
				w.Relation = "join"
			}
		}
	}
	return nil
}

// startedBy makes n wait for its parent: for its completion where n says so,
// otherwise for its start.
func (n *graphNode) startedBy(parent *graphNode) {
	for k := range n.waits {
		if w := &n.waits[k]; w.Name == parent.id {
			w.Relation = "spawn"
			return
		}
	}
	gap := 0.0
	if n.rec.HasAt && parent.rec.HasAt {
		gap = max(0, n.rec.when.since(parent.rec.when))
	}
	n.waits = append(n.waits, Edge{Name: parent.id, Dispatch: true, Relation: "spawn", Delay: gap})
}

// linkChains makes chains of the requests, or says why they are none.
func (g *graphRows) linkChains() error {
	spawns, joins := 0, 0
	for i := range g.nodes {
		n := &g.nodes[i]
		for k := range n.waits {
			w := &n.waits[k]
			before := &g.nodes[g.named[w.Name]]
			switch {
			case w.Relation == "spawn":
				spawns++
			case !w.sequence() || n.chained || before.next >= 0 || g.s.o.DAG == "chain" && (n.play != before.play || n.session != before.session):
				joins++
			default:
				n.chained, before.next = true, i
				n.rec.HasDelay, n.rec.Delay = true, w.Delay
			}
		}
	}
	if g.s.o.graphOf(spawns + joins) {
		g.addWhole()
		return nil
	}
	if err := g.s.refuseDAG(spawns, joins); err != nil {
		return err
	}
	for i := range g.nodes {
		if !g.nodes[i].chained {
			g.addChain(i)
		}
	}
	g.nodes = nil
	return nil
}

// addChain gives the requests of the chain that starts at node i.
func (g *graphRows) addChain(i int) {
	name := []byte(g.nodes[i].id)
	for ; i >= 0; i = g.nodes[i].next {
		n := &g.nodes[i]
		n.rec.Session, n.rec.Group = name, []byte(n.group())
		g.all = append(g.all, n.rec)
	}
}
