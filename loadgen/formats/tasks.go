package formats

import (
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// taskMaker makes a workload's graph of records that name those they wait for.
type taskMaker struct {
	named map[string]int32 // turn by name
	waits [][]Edge         // by turn
	group []string         // by turn; "": of none
	lost  int              // waits for requests that were left out
}

// add notes the next turn. Its record has a name.
func (m *taskMaker) add(r *Record) {
	if m.named == nil {
		m.named = make(map[string]int32)
	}
	m.named[r.Name] = int32(len(m.waits))
	m.waits = append(m.waits, append([]Edge(nil), r.After...))
	m.group = append(m.group, string(r.Group))
}

// link makes tasks of the workload's turns, each of which is a separate session so far.
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

// makeTasks makes the sessions of w, one for each tree.
func (m *taskMaker) makeTasks(w *loadgen.Workload, tasks Forest) {
	of := make([]int32, len(w.Turns)) // by turn that is the root of a tree: its task, from 1
	var sessions []loadgen.Session
	var last []int32 // by task: its last turn so far
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

// Forest is trees of things that belong together; the root of each is its first.
type Forest []int32

// NewForest returns n trees of one thing each.
func NewForest(n int) Forest {
	f := make(Forest, n)
	for i := range f {
		f[i] = int32(i)
	}
	return f
}

// RootOf returns the root of the tree of i.
func (f Forest) RootOf(i int32) int32 {
	for f[i] != i {
		f[i] = f[f[i]]
		i = f[i]
	}
	return i
}

// Join makes one of the trees of a and b.
func (f Forest) Join(a, b int32) {
	a, b = f.RootOf(a), f.RootOf(b)
	f[max(a, b)] = min(a, b)
}
