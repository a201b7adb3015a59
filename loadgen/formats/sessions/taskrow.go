package sessions

import (
	"math"
	"math/rand/v2"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// taskRows reads the format tasks. A row is a Mooncake row with an id and the ids of the requests for which it waits.
type taskRows struct {
	graphRows
	last map[string]string // id of the latest row, by session
}

// OpenTasks opens a file in the format tasks.
func OpenTasks(s *formats.Stream) (formats.Reader, error) {
	t := &taskRows{graphRows: graphRows{Gathered: formats.Gathered{S: s}, named: make(map[string]int), key: "after"}, last: make(map[string]string)}
	err := t.EachLine(func(f *scan.Fields) error {
		t.readRow(f)
		return nil
	})
	if err != nil || len(t.Bad) > 0 && s.Options.StopsAtBad() {
		return t, err
	}
	s.Chained, s.Shape.Exact = true, true
	t.v2 = true // dependencies keep their relation
	if err := t.linkBranches(); err != nil {
		return t, err
	}
	if err := t.findCycle(); err != nil {
		return t, err
	}
	if s.Options.WantsGraphOf(1) { // the requests are a graph even if all dependencies are chains
		t.addWhole()
		return t, nil
	}
	return t, t.linkChains()
}

// readRow adds the request in a row.
func (t *taskRows) readRow(f *scan.Fields) {
	n := graphNode{id: string(f.ReadText("id")), next: -1, rec: formats.Record{Line: f.Line}}
	if n.id == "" {
		f.Missing("id", "a string that is not empty")
	}
	n.play = string(f.ReadName("session_id"))
	if at, twice := t.named[n.id]; twice {
		f.Complain("id %s was on line %d, must be unique", n.id, t.nodes[at].rec.Line)
	}
	n.rec.Input = f.NeedCount("input_length", "input_tokens")
	n.rec.Output = f.NeedCount("output_length", "output_tokens")
	n.rec.IDs = f.NeedIDs("hash_ids", "one per block", nil)
	t.storeIDs(f, &n)
	if at, ok := f.ReadStamp("timestamp", 6); ok {
		n.rec.Arrives(at)
	}
	n.readKind(f)
	t.readWaits(f, &n)
	if f.Err == nil {
		t.named[n.id] = len(t.nodes)
		t.nodes = append(t.nodes, n)
		if n.play != "" {
			t.last[n.play] = n.id
		}
	}
}

// readKind reads the priority and the class of a request.
func (n *graphNode) readKind(f *scan.Fields) {
	if p, ok := f.ReadInteger("priority"); ok {
		if n.rec.Priority = int32(p); int64(n.rec.Priority) != p {
			f.Complain("priority is %d, must be a whole number of 32 bits", p)
		}
	}
	if class := f.ReadText("class"); class != nil {
		n.rec.Class = append([]byte(nil), class...)
		if err := loadgen.CheckClassName(string(class)); err != nil {
			f.Complain("%w", err)
		}
	}
}

// readWaits reads the dependencies of a request. A row without the field after waits for the previous row of its
// session.
func (t *taskRows) readWaits(f *scan.Fields, n *graphNode) {
	tool := t.newTool(f, n.id)
	delay, own := tool.draw(f, "delay_ms")
	before, later := t.last[n.play]
	switch list := f.ReadList("after"); {
	case list != nil:
		for i, v := range list {
			if e := (formats.Edge{Relation: "sequence", Delay: delay}); v[0] == '"' {
				e.Name = string(scan.UnquoteString(v))
				n.waits = append(n.waits, e)
			} else {
				n.waits = append(n.waits, tool.readWait(f.OpenElement("after", i, v), e))
			}
		}
	case later && n.play != "":
		if n.rec.HasAt && !own {
			f.Complain("timestamp is given, but session %s has begun, must be delay_ms, or after", excerpt.Cut(n.play))
		}
		n.waits = []formats.Edge{{Name: before, Relation: "sequence", Delay: delay}}
	}
	if own && delay > 0 && len(n.waits) == 0 {
		f.Complain("delay_ms is given, but the request waits for no other; must be a timestamp, or after")
	}
	seen := make(map[string]bool, len(n.waits))
	for _, e := range n.waits {
		if seen[e.Name] {
			f.Complain("after names %s twice, must be given once", e.Name)
		}
		seen[e.Name] = true
	}
}

// tool generates the durations of tool calls before a request.
type tool struct {
	s      *formats.Stream
	random *rand.Rand // separate for each request
	fails  float64    // share of failed calls, 0 to maxFails
}

// maxFails is the maximum share of failed calls. Below 1, the repetition of calls ends.
const maxFails = 0.99

func (t *taskRows) newTool(f *scan.Fields, id string) *tool {
	fails, _ := f.ReadFloat("fails")
	if !(fails >= 0 && fails <= maxFails) {
		f.Complain("fails is %v, must be 0 to %v", fails, maxFails)
	}
	return &tool{s: t.S, random: sim.NewRand(t.S.Options.Seed, "formats/tools/"+id), fails: fails}
}

// readWait reads an object in the list after. e has the defaults.
func (t *tool) readWait(f *scan.Fields, e formats.Edge) formats.Edge {
	if e.Name = string(f.ReadText("id")); e.Name == "" {
		f.Complain("%sid is missing, must be the id of a request", f.Place)
	}
	if delay, own := t.draw(f, "delay_ms"); own {
		e.Delay = delay
	}
	switch v := f.Value("start"); string(v) {
	case "", "false":
	case "true":
		e.Dispatch, e.Relation = true, "spawn"
	default:
		f.Mismatch("start", v, "true or false")
	}
	return e
}

// draw reads a time in ms, which is a number or a random distribution. draw adds the times of failed calls.
func (t *tool) draw(f *scan.Fields, key string) (ms float64, ok bool) {
	v := f.Value(key)
	if v == nil || f.Err != nil {
		return 0, false
	}
	one := func(*rand.Rand) float64 { return 0 }
	if v[0] == '"' {
		if t.s.Options.ReadLaw == nil {
			f.Mismatch(key, v, "a number of ms")
			return 0, true
		}
		law, err := t.s.Options.ReadLaw(string(scan.UnquoteString(v)))
		if err != nil {
			f.Complain("%s%s: %w", f.Place, key, err)
			return 0, true
		}
		one = law
	} else if x, _ := f.ReadFloat(key); f.Err == nil {
		one = func(*rand.Rand) float64 { return x }
	}
	for again := true; again; again = t.random.Float64() < t.fails {
		x := one(t.random)
		if x < 0 || math.IsNaN(x) || math.IsInf(ms+x, 0) {
			f.Complain("%s%s is %v, must be finite and >= 0", f.Place, key, x)
			return 0, true
		}
		ms += x
	}
	return ms, true
}
