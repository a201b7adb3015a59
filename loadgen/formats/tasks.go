package formats

import (
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// taskMaker creates the graph of a workload from records that name the requests for which they wait.
type taskMaker struct {
	named map[string]int32 // turn by name
	waits [][]Edge         // edges by turn
	group []string         // name of the group by turn; "": none
	lost  int              // number of waits for requests that were dropped
}

// add adds the record of the next turn. The record must have a name.
func (m *taskMaker) add(r *Record) {
	if m.named == nil {
		m.named = make(map[string]int32)
	}
	m.named[r.Name] = int32(len(m.waits))
	m.waits = append(m.waits, append([]Edge(nil), r.After...))
	m.group = append(m.group, string(r.Group))
}

// link creates the graph and the tasks of a workload. Before the call each turn is a separate session.
func (m *taskMaker) link(w *loadgen.Workload) {
	n := len(w.Turns)
	g := &loadgen.Graph{First: make([]int32, 1, n+1), Arrival: make([]sim.Time, n)}
	tasks := NewForest(n)
	groups := make(map[string]int32)
	for turn := range int32(n) {
		s := &w.Sessions[turn]
		if g.Arrival[turn] = s.Arrival; !s.HasArrival {
			g.Arrival[turn] = sim.Time(math.NaN())
		}
		for _, e := range m.waits[turn] {
			before, ok := m.named[e.Name]
			if !ok {
				m.lost++
				continue
			}
			g.Waits = append(g.Waits, loadgen.Wait{For: before, Start: e.Dispatch, Delay: sim.Time(e.Delay)})
			tasks.Join(turn, before)
		}
		g.First = append(g.First, int32(len(g.Waits)))
		if name := m.group[turn]; name != "" {
			if first, known := groups[name]; known {
				tasks.Join(turn, first)
			} else {
				groups[name] = turn
			}
		}
	}
	w.Graph = g
	m.makeTasks(w, tasks)
}

// makeTasks creates a session of w for each tree.
func (m *taskMaker) makeTasks(w *loadgen.Workload, tasks Forest) {
	of := make([]int32, len(w.Turns)) // number of the task, starting at 1, by the root turn of its tree
	var sessions []loadgen.Session
	var last []int32 // last turn so far, by task
	for turn := range w.Turns {
		root := tasks.RootOf(int32(turn))
		t, at := &w.Turns[turn], w.Graph.Arrival[turn]
		if of[root] == 0 {
			sessions = append(sessions, loadgen.Session{First: int32(turn), Automatic: true})
			last = append(last, -1)
			of[root] = int32(len(sessions))
		}
		i := of[root] - 1
		s := &sessions[i]
		if name := m.group[turn]; name != "" && s.Automatic {
			s.ID, s.Automatic = name, false
		}
		starts := len(w.Graph.WaitsOf(int32(turn))) == 0 && !math.IsNaN(float64(at))
		if starts && (!s.HasArrival || at < s.Arrival) {
			s.Arrival, s.HasArrival = at, true
		}
		t.Session, t.Index, t.Next = i, s.Turns, -1
		if before := last[i]; before >= 0 {
			w.Turns[before].Next = int32(turn)
		}
		s.Turns++
		last[i] = int32(turn)
	}
	w.Sessions, w.SessionPrefix = sessions, loadgen.RequestPrefix
}

// Forest is a set of trees (union-find). The root of each tree is its smallest element.
type Forest []int32

// NewForest returns n trees with one element each.
func NewForest(n int) Forest {
	f := make(Forest, n)
	for i := range f {
		f[i] = int32(i)
	}
	return f
}

// RootOf returns the root of the tree that contains i.
func (f Forest) RootOf(i int32) int32 {
	for f[i] != i {
		f[i] = f[f[i]]
		i = f[i]
	}
	return i
}

// Join joins the trees that contain a and b.
func (f Forest) Join(a, b int32) {
	a, b = f.RootOf(a), f.RootOf(b)
	f[max(a, b)] = min(a, b)
}
