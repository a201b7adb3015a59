package formats

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

func isWeka(o *object) bool {
	v := o.find("requests")
	return v != nil && v[0] == '[' && o.has("block_size")
}

// wekaRows reads conversations of coding agents, each an object.
type wekaRows struct {
	gathered
	block    int
	spawned  int // agents started by others
	joined   int // of them, those that others waited for
	relative bool
	ids      numbers[scoped]
	scope    string
	chains   []wekaChain
}

// wekaChain is one agent's requests.
type wekaChain struct {
	name   string
	root   int     // of the conversation, among the chains
	marker float64 // ms from the conversation's start at which the agent was started
	start  float64 // ms of its first request, as written
	all    []Record

	parent  int     // who started it, among the chains
	after   int     // the parent's request before that; -1: none
	ended   float64 // ms of that one's end
	waiting int     // the parent's request that waited for its end; -1: none
	wait    float64 // ms from its end to that request
}

func openWeka(s *Stream) (rows, error) {
	w := newWeka(s)
	if err := w.eachObject(w.readConversation); err != nil {
		return nil, err
	}
	return w, w.addRecords()
}

func newWeka(s *Stream) *wekaRows {
	s.Chained, s.shape.inexact = true, true
	s.paceArrivals()
	return &wekaRows{gathered: gathered{s: s}, ids: make(numbers[scoped])}
}

func (w *wekaRows) readConversation(f *fields) error {
	block, ok := f.readCount("block_size")
	switch {
	case f.err == nil && (!ok || block == 0):
		f.complain("block_size is %d, want > 0", block)
	case w.block != 0 && block != w.block:
		f.complain("block_size is %d, was %d before; want one size", block, w.block)
	}
	id := string(f.readName("id"))
	if id == "" {
		id = "line_" + strconv.Itoa(f.line)
	}
	if w.scope = id; string(f.readText("hash_id_scope")) == "global" {
		w.scope = ""
	}
	if f.err != nil {
		return f.err
	}
	w.block = block
	kept := len(w.chains)
	if err := w.readAgent(f, wekaChain{name: id, root: kept}); err != nil {
		w.chains = w.chains[:kept]
		return err
	}
	return nil
}

// readAgent reads the requests of one agent and of those it started.
func (w *wekaRows) readAgent(f *fields, c wekaChain) error {
	at := len(w.chains)
	w.chains = append(w.chains, c)
	end := 0.0
	var started []startedAgent
	for i, q := range f.elements("requests") {
		t, ok := q.readFloat("t")
		if !ok {
			q.missing("t", "seconds")
		}
		switch kind := string(q.readText("type")); kind {
		case "n", "s":
			r := w.readRequest(q)
			w.setDelay(q, &r, t, end, len(c.all) > 0)
			wait, _ := q.readFloat("api_time")
			end = float64(t*1000) + float64(wait*1000)
			started = w.joinAgents(started, len(c.all), t*1000)
			if len(c.all) == 0 {
				c.start = t * 1000
			}
			c.all = append(c.all, r)
		case "subagent":
			child := wekaChain{
				name: fmt.Sprintf("%s/%d", c.name, i), root: c.root, marker: t * 1000,
				parent: at, after: len(c.all) - 1, ended: end, waiting: -1,
			}
			if took, ok := q.readFloat("duration_ms"); ok {
				started = append(started, startedAgent{len(w.chains), t*1000 + took})
			}
			if err := w.readAgent(q, child); err != nil {
				return err
			}
		default:
			q.complain("%stype is %q, want n, s or subagent", q.place, kind)
		}
		if f.err != nil {
			return f.err
		}
	}
	w.chains[at].all, w.chains[at].start = c.all, c.start
	return f.err
}

// startedAgent is an agent that ended, and when, in ms.
type startedAgent struct {
	chain int
	ended float64
}

// joinAgents notes which of the agents a request at an instant had waited for, and
// keeps the others: those that ran on are waited for by a later request.
func (w *wekaRows) joinAgents(started []startedAgent, request int, at float64) (left []startedAgent) {
	for _, a := range started {
		if a.ended > at {
			left = append(left, a)
			continue
		}
		c := &w.chains[a.chain]
		c.waiting, c.wait = request, at-a.ended
	}
	return left
}

func (w *wekaRows) readRequest(q *fields) Record {
	r := Record{Line: q.line}
	r.Input, r.Output = q.needCount("in"), q.needCount("out")
	r.IDs = q.needIDs("hash_ids", "one per block", nil)
	replaceScoped(w.ids, w.scope, r.IDs)
	return r
}

// setDelay is the time to think, or what lies between the recorded times.
func (w *wekaRows) setDelay(q *fields, r *Record, t, end float64, later bool) {
	think, ok := q.readFloat("think_time")
	if think < 0 {
		q.complain("%sthink_time is %v, want >= 0", q.place, think)
	}
	if !later {
		return
	}
	r.HasDelay, r.Delay = true, think*1000
	if !ok {
		r.Delay = max(0, float64(t*1000)-end)
	}
}

// addRecords makes records of the chains.
func (w *wekaRows) addRecords() error {
	w.s.Block = w.block
	for i := range w.chains {
		c := &w.chains[i]
		if c.root != i && len(c.all) > 0 {
			w.spawned++
			if c.waiting >= 0 {
				w.joined++
			}
			w.relative = w.relative || c.start < c.marker
		}
	}
	graph := w.spawned > 0 && w.s.o.graphOf(w.spawned+w.joined)
	if graph {
		w.addEdges()
	} else if err := w.s.refuseDAG(w.spawned, w.joined); err != nil {
		return err
	}
	starts := make([]stamp, len(w.chains))
	for i := range w.chains {
		c := &w.chains[i]
		for k := range c.all {
			r := &c.all[k]
			if r.Group = []byte(w.chains[c.root].name); !graph {
				r.Session = []byte(c.name)
			}
			switch {
			case k > 0:
			case c.root == i:
				w.s.arrivePaced(r)
				starts[i] = r.when
			case w.s.pacer != nil:
				at := c.start
				if w.relative {
					at += c.marker
				}
				r.arrives(starts[c.root].plus(stamp{ms: at}))
			}
			w.all = append(w.all, *r)
		}
	}
	w.chains = nil
	if graph {
		w.all = afterOthers(w.all)
	}
	return nil
}

// readFiles reads conversations from several files, one object or one per line
// each.
func (w *wekaRows) readFiles(names []string) error {
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		part := &gathered{s: &Stream{Name: name, lines: newLines(bytes.NewReader(text), name), o: w.s.o}}
		if err := part.eachObject(w.readConversation); err != nil {
			return err
		}
		w.bad = append(w.bad, part.bad...)
	}
	return w.addRecords()
}

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
