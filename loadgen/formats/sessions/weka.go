package sessions

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// IsWeka reports whether a record is a conversation in the format weka.
func IsWeka(o *scan.Object) bool {
	v := o.Find("requests")
	return v != nil && v[0] == '[' && o.Has("block_size")
}

// wekaRows reads conversations of coding agents. Each conversation is a JSON object.
type wekaRows struct {
	formats.Gathered
	block    int
	spawned  int // number of agents started by other agents
	joined   int // number of those agents for which other agents waited
	relative bool
	ids      formats.Numbers[formats.Scoped]
	scope    string
	chains   []wekaChain
}

// wekaChain has the requests of an agent.
type wekaChain struct {
	name   string
	root   int     // index of the conversation's first chain
	marker float64 // start of the agent in ms from the start of the conversation
	start  float64 // time of its first request in the file, ms
	all    []formats.Record

	parent  int     // index of the chain of its parent agent
	after   int     // index of the parent's request before the start; -1 if none
	ended   float64 // end of that request, ms
	waiting int     // index of the parent's request that waited for its end; -1 if none
	wait    float64 // ms from its end to that request
}

// OpenWeka opens a file with conversations.
func OpenWeka(s *formats.Stream) (formats.Reader, error) {
	w := newWeka(s)
	if err := w.EachObject(w.readConversation); err != nil {
		return nil, err
	}
	return w, w.addRecords()
}

func newWeka(s *formats.Stream) *wekaRows {
	s.Chained, s.Shape.Inexact = true, true
	s.PaceArrivals()
	return &wekaRows{Gathered: formats.Gathered{S: s}, ids: make(formats.Numbers[formats.Scoped])}
}

func (w *wekaRows) readConversation(f *scan.Fields) error {
	block, ok := f.ReadCount("block_size")
	switch {
	case f.Err == nil && (!ok || block == 0):
		f.Complain("block_size is %d, must be > 0", block)
	case w.block != 0 && block != w.block:
		f.Complain("block_size is %d, was %d before, must be one size", block, w.block)
	}
	id := string(f.ReadName("id"))
	if id == "" {
		id = "line_" + strconv.Itoa(f.Line)
	}
	if w.scope = id; string(f.ReadText("hash_id_scope")) == "global" {
		w.scope = ""
	}
	if f.Err != nil {
		return f.Err
	}
	w.block = block
	kept := len(w.chains)
	if err := w.readAgent(f, wekaChain{name: id, root: kept}); err != nil {
		w.chains = w.chains[:kept]
		return err
	}
	return nil
}

// readAgent reads the requests of an agent and of the agents that it started.
func (w *wekaRows) readAgent(f *scan.Fields, c wekaChain) error {
	at := len(w.chains)
	w.chains = append(w.chains, c)
	end := 0.0
	var started []startedAgent
	for i, q := range f.Elements("requests") {
		t, ok := q.ReadFloat("t")
		if !ok {
			q.Missing("t", "seconds")
		}
		switch kind := string(q.ReadText("type")); kind {
		case "n", "s":
			r := w.readRequest(q)
			w.setDelay(q, &r, t, end, len(c.all) > 0)
			wait, _ := q.ReadFloat("api_time")
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
			if took, ok := q.ReadFloat("duration_ms"); ok {
				started = append(started, startedAgent{len(w.chains), t*1000 + took})
			}
			if err := w.readAgent(q, child); err != nil {
				return err
			}
		default:
			q.Complain("%stype is %q, must be n, s or subagent", q.Place, kind)
		}
		if f.Err != nil {
			return f.Err
		}
	}
	w.chains[at].all, w.chains[at].start = c.all, c.start
	return f.Err
}

// startedAgent is a started agent with its end in ms.
type startedAgent struct {
	chain int
	ended float64
}

// joinAgents stores for each agent that ended before the time at that the request waited for it. left are the agents
// still running at this time.
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

func (w *wekaRows) readRequest(q *scan.Fields) formats.Record {
	r := formats.Record{Line: q.Line}
	r.Input, r.Output = q.NeedCount("in"), q.NeedCount("out")
	r.IDs = q.NeedIDs("hash_ids", "one per block", nil)
	formats.ReplaceScoped(w.ids, w.scope, r.IDs)
	return r
}

// setDelay sets the delay before a request: its think time, or the gap between the recorded times.
func (w *wekaRows) setDelay(q *scan.Fields, r *formats.Record, t, end float64, later bool) {
	think, ok := q.ReadFloat("think_time")
	if think < 0 {
		q.Complain("%sthink_time is %v, must be >= 0", q.Place, think)
	}
	if !later {
		return
	}
	r.HasDelay, r.Delay = true, think*1000
	if !ok {
		r.Delay = max(0, float64(t*1000)-end)
	}
}

// addRecords adds the records of all chains.
func (w *wekaRows) addRecords() error {
	w.S.Block = w.block
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
	graph := w.spawned > 0 && w.S.Options.WantsGraphOf(w.spawned+w.joined)
	if graph {
		w.addEdges()
	} else if err := w.S.RefuseDAG(w.spawned, w.joined); err != nil {
		return err
	}
	starts := make([]scan.Stamp, len(w.chains))
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
				w.S.ArrivePaced(r)
				starts[i] = r.When
			case !w.S.Untimed:
				at := c.start
				if w.relative {
					at += c.marker
				}
				r.Arrives(starts[c.root].Plus(scan.Stamp{MS: at}))
			}
			w.All = append(w.All, *r)
		}
	}
	w.chains = nil
	if graph {
		w.All = sortAfterOthers(w.All)
	}
	return nil
}

// OpenFiles opens several files with conversations. A file has one object, or one object per line.
func OpenFiles(s *formats.Stream, names []string) (formats.Reader, error) {
	w := newWeka(s)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := formats.Start(bytes.NewReader(text), name, 0, s.Options)
		if err != nil {
			return nil, err
		}
		part := &formats.Gathered{S: file}
		if err := part.EachObject(w.readConversation); err != nil {
			return nil, err
		}
		w.Bad = append(w.Bad, part.Bad...)
	}
	return w, w.addRecords()
}

// addEdges adds the dependencies of all requests. A request waits for the previous request of its agent. The first
// request of a started agent waits for a request of its parent. A request of the parent waits for the end of started
// agents.
func (w *wekaRows) addEdges() {
	name := func(c *wekaChain, k int) string { return c.name + "#" + strconv.Itoa(k) }
	for i := range w.chains {
		c := &w.chains[i]
		for k := range c.all {
			r := &c.all[k]
			if r.Name, r.Agent = name(c, k), c.name; k > 0 {
				r.After = append(r.After, formats.Edge{Name: name(c, k-1), Relation: "sequence", Delay: r.Delay})
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
			first.After = append(first.After, formats.Edge{Name: name(parent, c.after), Relation: "spawn", Delay: max(0, start-c.ended)})
		}
		if c.waiting >= 0 {
			r := &parent.all[c.waiting]
			r.After = append(r.After, formats.Edge{Name: name(c, len(c.all)-1), Relation: "join", Delay: c.wait})
		}
	}
}
