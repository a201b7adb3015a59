package formats

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// isTask reports whether a record is a row of tasks.
func isTask(o *object) bool { return o.hasAll("id", "after") && isMooncake(o) }

// taskRows reads tasks: Mooncake rows with an id that name those they wait for.
type taskRows struct {
	graphRows
	last map[string]string // by session: the id of its last row so far
}

func openTasks(s *Stream) (rows, error) {
	t := &taskRows{graphRows: graphRows{gathered: gathered{s: s}, named: make(map[string]int), key: "after"}, last: make(map[string]string)}
	err := t.eachLine(func(f *fields) error {
		t.readRow(f)
		return nil
	})
	if err != nil || len(t.bad) > 0 && s.o.stops() {
		return t, err
	}
	s.Chained, s.shape.exact = true, true
	t.v2 = true // waits are as they stand
	if err := t.linkBranches(); err != nil {
		return t, err
	}
	if err := t.findCycle(); err != nil {
		return t, err
	}
	if s.o.graphOf(1) { // a file of tasks is one even where all are chains
		t.addWhole()
		return t, nil
	}
	return t, t.linkChains()
}

// readRow reads a row.
func (t *taskRows) readRow(f *fields) {
	n := graphNode{id: string(f.readText("id")), next: -1, rec: Record{Line: f.line}}
	if n.id == "" {
		f.missing("id", "a string that is not empty")
	}
	n.play = string(f.readName("session_id"))
	if at, twice := t.named[n.id]; twice {
		f.complain("id %s was on line %d, want each once", n.id, t.nodes[at].rec.Line)
	}
	n.rec.Input = f.needCount("input_length", "input_tokens")
	n.rec.Output = f.needCount("output_length", "output_tokens")
	n.rec.IDs = f.needIDs("hash_ids", "one per block", nil)
	if at, ok := f.readStamp("timestamp", 6); ok {
		n.rec.arrives(at)
	}
	n.readKind(f)
	t.readWaits(f, &n)
	if f.err == nil {
		t.named[n.id] = len(t.nodes)
		t.nodes = append(t.nodes, n)
		if n.play != "" {
			t.last[n.play] = n.id
		}
	}
}

// readKind reads the priority and the class of a request.
func (n *graphNode) readKind(f *fields) {
	if p, ok := f.readInteger("priority"); ok {
		if n.rec.Priority = int32(p); int64(n.rec.Priority) != p {
			f.complain("priority is %d, want a whole number of 32 bits", p)
		}
	}
	if class := f.readText("class"); class != nil {
		n.rec.Class = append([]byte(nil), class...)
		if err := loadgen.CheckClassName(string(class)); err != nil {
			f.complain("%w", err)
		}
	}
}

// readWaits reads what a request waits for: what it names, or else the row before it of its
// session.
func (t *taskRows) readWaits(f *fields, n *graphNode) {
	tool := t.newTool(f, n.id)
	delay, own := tool.draw(f, "delay_ms")
	before, later := t.last[n.play]
	switch list := f.readList("after"); {
	case list != nil:
		for i, v := range list {
			if e := (Edge{Relation: "sequence", Delay: delay}); v[0] == '"' {
				e.Name = string(unquoteString(v))
				n.waits = append(n.waits, e)
			} else {
				n.waits = append(n.waits, tool.readWait(f.openElement("after", i, v), e))
			}
		}
	case later && n.play != "":
		if n.rec.HasAt && !own {
			f.complain("timestamp is given, but session %s has begun; want delay_ms, or after", excerpt.Cut(n.play))
		}
		n.waits = []Edge{{Name: before, Relation: "sequence", Delay: delay}}
	}
	if own && delay > 0 && len(n.waits) == 0 {
		f.complain("delay_ms is given, but the request waits for no other; want a timestamp, or after")
	}
	seen := make(map[string]bool, len(n.waits))
	for _, e := range n.waits {
		if seen[e.Name] {
			f.complain("after names %s twice, want it once", e.Name)
		}
		seen[e.Name] = true
	}
}

// tool draws the times that tools take before a request.
type tool struct {
	s      *Stream
	random *rand.Rand // of the request
	fails  float64    // the share of calls that are made again, 0 to maxFails
}

// maxFails bounds the share of calls that fail, so that one ends.
const maxFails = 0.99

func (t *taskRows) newTool(f *fields, id string) *tool {
	fails, _ := f.readFloat("fails")
	if !(fails >= 0 && fails <= maxFails) {
		f.complain("fails is %v, want 0 to %v", fails, maxFails)
	}
	return &tool{s: t.s, random: sim.NewRand(t.s.o.Seed, "formats/tools/"+id), fails: fails}
}

// readWait reads an element of after that is an object; e is what it leaves open.
func (t *tool) readWait(f *fields, e Edge) Edge {
	if e.Name = string(f.readText("id")); e.Name == "" {
		f.complain("%sid is missing, want the id of a request", f.place)
	}
	if delay, own := t.draw(f, "delay_ms"); own {
		e.Delay = delay
	}
	switch v := f.value("start"); string(v) {
	case "", "false":
	case "true":
		e.Dispatch, e.Relation = true, "spawn"
	default:
		f.mismatch("start", v, "true or false")
	}
	return e
}

// draw reads a time in ms, a number or a law, and adds those of calls that failed.
func (t *tool) draw(f *fields, key string) (ms float64, ok bool) {
	v := f.value(key)
	if v == nil || f.err != nil {
		return 0, false
	}
	one := func(*rand.Rand) float64 { return 0 }
	if v[0] == '"' {
		if t.s.o.ReadLaw == nil {
			f.mismatch(key, v, "a number of ms")
			return 0, true
		}
		law, err := t.s.o.ReadLaw(string(unquoteString(v)))
		if err != nil {
			f.complain("%s%s: %w", f.place, key, err)
			return 0, true
		}
		one = law
	} else if x, _ := f.readFloat(key); f.err == nil {
		one = func(*rand.Rand) float64 { return x }
	}
	for again := true; again; again = t.random.Float64() < t.fails {
		x := one(t.random)
		if x < 0 || math.IsNaN(x) || math.IsInf(ms+x, 0) {
			f.complain("%s%s is %v, want finite and >= 0", f.place, key, x)
			return 0, true
		}
		ms += x
	}
	return ms, true
}

// errNotGraph refuses a row of tasks in a file of another format.
func errNotGraph() error {
	return fmt.Errorf("the row names what it waits for (after), and those before it have no id; want an id in each, and --trace-format tasks")
}
