package formats

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/replay-llm/replay/loadgen"
)

func isGraph(o *object) bool { return string(o.find("schema")) == `"dynamo.agentic_mooncake"` }

func isGraphV1(o *object) bool {
	return o.has("request_id") && o.has("wait_for", "branches", "prefix_reset", "tool_wait_ms", "tool_events")
}

// graphRows reads agentic_mooncake, in which requests name those they wait for.
type graphRows struct {
	gathered
	f     fields
	v2    bool
	local bool // ids mean something inside one play only
	nodes []graphNode
	named map[string]int // place in nodes
	ids   map[scoped]uint64
}

type graphNode struct {
	rec     Record
	id      string
	group   string // play and session
	waits   []wait
	next    int // the node that follows in its chain, -1
	chained bool
}

// wait is one edge.
type wait struct {
	id       string
	sequence bool
	delay    float64 // ms
}

type scoped struct {
	scope string
	id    uint64
}

func openGraph(s *Stream) (rows, error) {
	g := &graphRows{gathered: gathered{s: s}, named: make(map[string]int), ids: make(map[scoped]uint64)}
	first := true
	err := g.eachLine(func(line []byte) error {
		if err := g.f.open(line); err != nil {
			return err
		}
		if first {
			first = false
			if g.f.has("schema") || g.f.has("version") {
				return g.header()
			}
		}
		g.node()
		return g.f.err
	})
	if err != nil || len(g.bad) > 0 && s.o.stops() {
		return g, err
	}
	s.Chained = true
	g.s.shape.inexact = true
	return g, g.link()
}

func (g *graphRows) header() error {
	f := &g.f
	g.v2 = true
	if n, ok := f.integer("version"); f.err == nil && (!ok || n != 2) {
		f.mismatch("version", f.value("version"), "2")
	}
	block, ok := f.count("block_size")
	if f.err == nil && (!ok || block == 0) {
		f.complain("block_size is %d, want > 0", block)
	}
	g.s.Block = block
	g.local = string(f.text("hash_id_scope")) == "local"
	if f.err != nil {
		return &fatalError{g.s.lines.errorf("%v", f.err)}
	}
	return nil
}

// node reads a row.
func (g *graphRows) node() {
	f := &g.f
	n := graphNode{id: string(f.text("request_id")), next: -1}
	n.rec.reset(g.s.lines.line)
	if !f.has("request_id") {
		f.missing("request_id", "a string")
	}
	session, play := f.name("session_id"), f.text("play_id")
	n.group = string(play) + "/" + string(session)
	if at, twice := g.named[n.id]; twice {
		f.complain("request_id %s was on line %d, want each once", n.id, g.nodes[at].rec.Line)
	}
	n.rec.Input = f.needCount("input_length", "input_tokens")
	n.rec.Output = f.needCount("output_length", "output_tokens")
	ids, has := f.ids("hash_ids", nil)
	if !has {
		f.missing("hash_ids", "one per block")
	}
	n.rec.IDs = g.scope(ids, string(play))
	if g.v2 {
		g.waitsV2(&n)
	} else {
		g.waitsV1(&n)
	}
	if f.err == nil {
		g.named[n.id] = len(g.nodes)
		g.nodes = append(g.nodes, n)
	}
}

// scope keeps ids of different plays apart where they are local to one.
func (g *graphRows) scope(ids []uint64, play string) []uint64 {
	if !g.local {
		return ids
	}
	for i, id := range ids {
		k := scoped{play, id}
		n, ok := g.ids[k]
		if !ok {
			n = uint64(len(g.ids))
			g.ids[k] = n
		}
		ids[i] = n
	}
	return ids
}

func (g *graphRows) waitsV1(n *graphNode) {
	f := &g.f
	if at, ok := f.stamp("timestamp", 6); ok {
		n.rec.arrives(at)
	}
	delay, _ := f.float("delay", "delay_ms")
	tool, _ := f.float("tool_wait_ms")
	if delay < 0 || tool < 0 {
		f.complain("delay is %v and tool_wait_ms is %v, want >= 0", delay, tool)
	}
	for i, v := range f.list("wait_for") {
		if v[0] != '"' {
			f.mismatch(fmt.Sprintf("wait_for[%d]", i), v, "a request id")
			return
		}
		n.waits = append(n.waits, wait{string(unquote(v)), true, delay + tool})
	}
}

func (g *graphRows) waitsV2(n *graphNode) {
	f := &g.f
	n.rec.arrives(f.needStamp("not_before_ms", 6))
	for i, v := range f.list("dependencies") {
		var d fields
		d.within(v, fmt.Sprintf("dependencies[%d].", i))
		id := d.text("request_id")
		delay, _ := d.float("delay_ms")
		if delay < 0 {
			d.complain("%sdelay_ms is %v, want >= 0", d.place, delay)
		}
		trigger, relation := string(d.text("trigger")), string(d.text("relation"))
		if trigger != "completion" && trigger != "dispatch" {
			d.complain("%strigger is %q, want dispatch or completion", d.place, trigger)
		}
		n.waits = append(n.waits, wait{string(id), trigger == "completion" && relation == "sequence", delay})
		f.adopt(&d)
	}
}

// link makes chains of the requests, or says why they are none.
func (g *graphRows) link() error {
	strays := 0
	for i := range g.nodes {
		n := &g.nodes[i]
		for _, w := range n.waits {
			at, ok := g.named[w.id]
			if !ok {
				return rowAt(g.s.Name, n.rec.Line, fmt.Errorf("wait_for names %s, which is not in the file", w.id))
			}
			before := &g.nodes[at]
			if !w.sequence || n.chained || before.next >= 0 || g.s.o.DAG == "chain" && n.group != before.group {
				strays++
				continue
			}
			n.chained, before.next = true, i
			n.rec.HasDelay, n.rec.Delay = true, w.delay
		}
	}
	if err := g.cycle(); err != nil {
		return err
	}
	if err := g.s.refuseDAG(strays); err != nil {
		return err
	}
	for i := range g.nodes {
		if !g.nodes[i].chained {
			g.chain(i)
		}
	}
	g.nodes = nil
	return nil
}

// chain gives the requests of the chain that starts at node i.
func (g *graphRows) chain(i int) {
	name := []byte(g.nodes[i].id)
	for ; i >= 0; i = g.nodes[i].next {
		n := &g.nodes[i]
		n.rec.Session, n.rec.Group = name, bytes.Clone([]byte(n.group))
		g.all = append(g.all, n.rec)
	}
}

// cycle looks for requests that wait for each other: those left when all that
// wait for nobody have been taken away again and again.
func (g *graphRows) cycle() error {
	open := make([]int, len(g.nodes)) // waits left
	heirs := make([][]int, len(g.nodes))
	var ready []int
	for i := range g.nodes {
		open[i] = len(g.nodes[i].waits)
		if open[i] == 0 {
			ready = append(ready, i)
		}
		for _, w := range g.nodes[i].waits {
			heirs[g.named[w.id]] = append(heirs[g.named[w.id]], i)
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
			names = append(names, g.nodes[i].id)
		}
	}
	return &loadgen.SyntaxError{Name: g.s.Name, Line: line, Msg: fmt.Sprintf("requests %s wait for each other, want no cycle", strings.Join(names, ", "))}
}
