// Package sessions reads formats in which requests wait for each other: conversations, agents and graphs.
//
// Conversations: bailian.go (Qwen on Bailian), servingsim.go (LLMServingSim). Agents: agents.go (applied_compute_agentic),
// weka.go (coding agents), dynamo.go (request traces of Dynamo). Graphs: graph.go (agentic_mooncake), taskrow.go (tasks).
package sessions

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// graphRows reads the format agentic_mooncake. A row contains the ids of the requests for which it waits.
type graphRows struct {
	formats.Gathered
	v2    bool
	local bool // hash ids are valid only within a play
	nodes []graphNode
	order []int32        // for graphs: indices of the nodes that Next has not returned yet
	named map[string]int // index in nodes
	ids   formats.Numbers[formats.Scoped]
	key   string // name of the field with dependencies, for messages; "" means wait_for
}

type graphNode struct {
	rec     formats.Record
	id      string
	play    string
	session string
	waits   []formats.Edge
	starts  []string // requests that it starts; only in version 1
	next    int      // index of the next node in its chain, or -1
	chained bool
}

// OpenGraph opens a file in the format agentic_mooncake.
func OpenGraph(s *formats.Stream) (formats.Reader, error) {
	g := &graphRows{Gathered: formats.Gathered{S: s}, named: make(map[string]int), ids: make(formats.Numbers[formats.Scoped])}
	first := true
	err := g.EachLine(func(f *scan.Fields) error {
		header := first && f.Has("schema", "version")
		if first = false; header {
			return g.readHeader(f)
		}
		g.readNode(f)
		return nil
	})
	if err != nil || len(g.Bad) > 0 && s.Options.StopsAtBad() {
		return g, err
	}
	s.Chained = true
	g.S.Shape.Inexact = true
	if err := g.linkBranches(); err != nil {
		return g, err
	}
	if err := g.findCycle(); err != nil {
		return g, err
	}
	if s.Options.WantsGraph() {
		g.addWhole()
		return g, nil
	}
	return g, g.linkChains()
}

func (g *graphRows) readHeader(f *scan.Fields) error {
	g.v2 = true
	if n, ok := f.ReadInteger("version"); f.Err == nil && (!ok || n != 2) {
		f.Mismatch("version", f.Value("version"), "2")
	}
	block, ok := f.ReadCount("block_size")
	if f.Err == nil && (!ok || block == 0) {
		f.Complain("block_size is %d, must be > 0", block)
	}
	g.S.Block = block
	g.local = string(f.ReadText("hash_id_scope")) == "local"
	if f.Err != nil {
		return scan.Fatal(g.S.Lines.Errorf("%v", f.Err))
	}
	return nil
}

// readNode adds the request in a row.
func (g *graphRows) readNode(f *scan.Fields) {
	n := graphNode{id: string(f.ReadText("request_id")), next: -1, rec: formats.Record{Line: f.Line}}
	if !f.Has("request_id") {
		f.Missing("request_id", "a string")
	}
	n.session, n.play = string(f.ReadName("session_id")), string(f.ReadText("play_id"))
	if at, twice := g.named[n.id]; twice {
		f.Complain("request_id %s was on line %d, must be unique", n.id, g.nodes[at].rec.Line)
	}
	n.rec.Input = f.NeedCount("input_length", "input_tokens")
	n.rec.Output = f.NeedCount("output_length", "output_tokens")
	n.rec.IDs = f.NeedIDs("hash_ids", "one per block", nil)
	if g.local {
		formats.ReplaceScoped(g.ids, n.play, n.rec.IDs)
	}
	g.storeIDs(f, &n)
	if g.v2 {
		n.waitsV2(f)
	} else {
		n.waitsV1(f)
	}
	if f.Err == nil {
		g.named[n.id] = len(g.nodes)
		g.nodes = append(g.nodes, n)
	}
}

// storeIDs stores the ids of a row in the stream.
func (g *graphRows) storeIDs(f *scan.Fields, n *graphNode) {
	if f.Err == nil {
		f.Err = g.S.StoreIDs(&n.rec)
	}
}

func (n *graphNode) waitsV1(f *scan.Fields) {
	if at, ok := f.ReadStamp("timestamp", 6); ok {
		n.rec.Arrives(at)
	}
	delay, _ := f.ReadFloat("delay", "delay_ms")
	tool, _ := f.ReadFloat("tool_wait_ms")
	if delay < 0 || tool < 0 {
		f.Complain("delay is %v and tool_wait_ms is %v, must be >= 0", delay, tool)
	}
	for _, id := range readRequests(f, "wait_for") {
		n.waits = append(n.waits, formats.Edge{Name: id, Relation: "sequence", Delay: delay + tool})
	}
	n.starts = readRequests(f, "branches")
}

// readRequests returns a list of request ids.
func readRequests(f *scan.Fields, key string) (ids []string) {
	for i, v := range f.ReadList(key) {
		if v[0] != '"' {
			f.Mismatch(fmt.Sprintf("%s[%d]", key, i), v, "a request id")
			return nil
		}
		ids = append(ids, string(scan.UnquoteString(v)))
	}
	return ids
}

func (n *graphNode) waitsV2(f *scan.Fields) {
	n.rec.Arrives(f.NeedStamp("not_before_ms", 6))
	for _, d := range f.Elements("dependencies") {
		id := d.ReadText("request_id")
		delay, _ := d.ReadFloat("delay_ms")
		if delay < 0 {
			d.Complain("%sdelay_ms is %v, must be >= 0", d.Place, delay)
		}
		trigger, relation := string(d.ReadText("trigger")), string(d.ReadText("relation"))
		if trigger != "completion" && trigger != "dispatch" {
			d.Complain("%strigger is %q, must be dispatch or completion", d.Place, trigger)
		}
		if relation != "sequence" && relation != "spawn" && relation != "join" && relation != "replay_barrier" {
			d.Complain("%srelation is %q, must be sequence, spawn, join or replay_barrier", d.Place, relation)
		}
		n.waits = append(n.waits, formats.Edge{Name: string(id), Dispatch: trigger == "dispatch", Relation: relation, Delay: delay})
	}
}

func (n *graphNode) group() string { return n.play + "/" + n.session }

// linkBranches checks that all named requests exist. linkBranches replaces branches by dependencies of the started
// requests.
func (g *graphRows) linkBranches() error {
	for i := range g.nodes {
		n := &g.nodes[i]
		for _, id := range n.starts {
			at, ok := g.named[id]
			if !ok {
				return scan.RowError(g.S.Name, n.rec.Line, fmt.Errorf("branches names %s, which is not in the file, must be a request of it", id))
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
				return scan.RowError(g.S.Name, n.rec.Line, fmt.Errorf("%s names %s, which is not in the file, must be a request of it", cmp.Or(g.key, "wait_for"), w.Name))
			}
			if !g.v2 && len(n.waits) > 1 && w.Relation == "sequence" && g.nodes[at].session != n.session {
				w.Relation = "join"
			}
		}
	}
	return nil
}

// startedBy makes n wait for its parent. An existing dependency on the completion of the parent is kept. Otherwise n
// waits for the start of the parent.
func (n *graphNode) startedBy(parent *graphNode) {
	for k := range n.waits {
		if w := &n.waits[k]; w.Name == parent.id {
			w.Relation = "spawn"
			return
		}
	}
	gap := 0.0
	if n.rec.HasAt && parent.rec.HasAt {
		gap = max(0, n.rec.When.Since(parent.rec.When))
	}
	n.waits = append(n.waits, formats.Edge{Name: parent.id, Dispatch: true, Relation: "spawn", Delay: gap})
}

// linkChains makes chains of the requests. linkChains returns an error if the dependencies are not chains.
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
			case !w.Sequence() || n.chained || before.next >= 0 || g.S.Options.DAG == "chain" && (n.play != before.play || n.session != before.session):
				joins++
			default:
				n.chained, before.next = true, i
				n.rec.HasDelay, n.rec.Delay = true, w.Delay
			}
		}
	}
	if g.S.Options.WantsGraphOf(spawns + joins) {
		g.addWhole()
		return nil
	}
	if err := g.S.RefuseDAG(spawns, joins); err != nil {
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

// addChain adds the requests of the chain that starts at node i.
func (g *graphRows) addChain(i int) {
	name := []byte(g.nodes[i].id)
	for ; i >= 0; i = g.nodes[i].next {
		n := &g.nodes[i]
		n.rec.Session, n.rec.Group = name, []byte(n.group())
		g.All = append(g.All, n.rec)
	}
}

// addWhole sorts the requests so that each request follows its dependencies.
func (g *graphRows) addWhole() {
	g.order = orderByWaits(len(g.nodes), g.named, func(i int) []formats.Edge { return g.nodes[i].waits })
	g.named = nil
}

// Next returns the next request. In a graph a request has its dependencies.
func (g *graphRows) Next(r *formats.Record) error {
	if len(g.Bad) > 0 || len(g.order) == 0 {
		return g.Gathered.Next(r)
	}
	n := &g.nodes[g.order[0]]
	g.order = g.order[1:]
	n.rec.HasDelay, n.rec.Delay = false, 0
	n.rec.Name, n.rec.Agent, n.rec.After = n.id, n.session, n.waits
	if n.rec.Group = []byte(n.play); n.play == "" {
		n.rec.Group = []byte(n.session)
	}
	ids := append(r.IDs[:0], n.rec.IDs...)
	*r, r.IDs = n.rec, ids
	*n = graphNode{}
	return g.S.LoadIDs(r)
}

// sortAfterOthers sorts records so that each record follows its dependencies. The dependencies must not have a cycle.
func sortAfterOthers(all []formats.Record) []formats.Record {
	named := make(map[string]int, len(all))
	for i := range all {
		named[all[i].Name] = i
	}
	sorted := make([]formats.Record, 0, len(all))
	for _, i := range orderByWaits(len(all), named, func(i int) []formats.Edge { return all[i].After }) {
		sorted = append(sorted, all[i])
	}
	return sorted
}

// orderByWaits returns the indices of n requests, sorted so that each request follows its dependencies. Otherwise the
// order does not change. The dependencies must not have a cycle. Names that are not in named are ignored.
func orderByWaits(n int, named map[string]int, waitsOf func(i int) []formats.Edge) []int32 {
	order := make([]int32, 0, n)
	seen := make([]bool, n) // already in order or on the stack
	type visit struct{ request, wait int }
	var open []visit
	for i := range n {
		if seen[i] {
			continue
		}
		seen[i], open = true, append(open, visit{request: i})
		for len(open) > 0 {
			v := &open[len(open)-1]
			if waits := waitsOf(v.request); v.wait < len(waits) {
				before, known := named[waits[v.wait].Name]
				v.wait++
				if known && !seen[before] {
					seen[before] = true
					open = append(open, visit{request: before})
				}
				continue
			}
			order = append(order, int32(v.request))
			open = open[:len(open)-1]
		}
	}
	return order
}

// findCycle returns an error if requests wait for each other in a cycle. findCycle repeatedly removes requests
// without open dependencies. Remaining requests are in a cycle or wait for one.
func (g *graphRows) findCycle() error {
	open := make([]int, len(g.nodes)) // number of open dependencies
	heirs := make([][]int, len(g.nodes))
	var ready []int
	for i := range g.nodes {
		open[i] = len(g.nodes[i].waits)
		if open[i] == 0 {
			ready = append(ready, i)
		}
		for _, w := range g.nodes[i].waits {
			heirs[g.named[w.Name]] = append(heirs[g.named[w.Name]], i)
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		last := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, h := range heirs[last] {
			if open[h]--; open[h] == 0 {
				ready = append(ready, h)
			}
		}
	}
	if done == len(g.nodes) {
		return nil
	}
	var names []string
	line := 0
	for i := range g.nodes {
		if open[i] > 0 && len(names) < 5 {
			if line == 0 {
				line = g.nodes[i].rec.Line
			}
			names = append(names, excerpt.Cut(g.nodes[i].id))
		}
	}
	return &loadgen.SyntaxError{Name: g.S.Name, Line: line, Msg: fmt.Sprintf("requests %s wait for each other, must be no cycle", strings.Join(names, ", "))}
}
