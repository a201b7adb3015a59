package loadgen

import (
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Graph has the dependencies of turns if a turn may wait for more than the previous turn. The sessions of such a
// workload are tasks. A task is a set of requests that are connected by waits or have the same task name in the
// trace.
type Graph struct {
	// Turn i has the waits Waits[First[i]:First[i+1]].
	First []int32
	Waits []Wait
	// Arrival is the arrival time in the trace, for turns that do not wait. NaN means that the arrival is unknown.
	Arrival []sim.Time
}

// Wait is a dependency of a turn on another turn.
type Wait struct {
	For   int32    // index of the other turn
	Start bool     // wait for its arrival; false: wait for its completion
	Delay sim.Time // delay after that, finite and >= 0
}

// WaitsOf returns the waits of a turn.
func (g *Graph) WaitsOf(turn int32) []Wait { return g.Waits[g.First[turn]:g.First[turn+1]] }

// graphFeed is the additional state of a feed with a graph.
type graphFeed struct {
	roots []int32 // turns without waits, in order of arrival
	rank  []int32 // by turn: order among turns at the same time, by task and then by index in the task
	left  []int32 // by turn: number of waits that are not over
	from  []sim.Time
	// The turns heirs[first[i]:first[i+1]] wait for turn i.
	first []int32
	heirs []heir
}

// heir is a turn that waits for another turn.
type heir struct {
	turn  int32
	start bool
	delay sim.Time
}

// newGraphFeed returns the state for a graph. t converts its times to simulated times.
func newGraphFeed(t *times) *graphFeed {
	g, n := t.w.Graph, len(t.w.Turns)
	f := &graphFeed{rank: make([]int32, n), left: make([]int32, n), from: make([]sim.Time, n), first: make([]int32, n+1), heirs: make([]heir, len(g.Waits))}
	next := int32(0)
	for i := range t.w.Sessions {
		for turn := t.w.Sessions[i].First; turn >= 0; turn = t.w.Turns[turn].Next {
			f.rank[turn] = next
			next++
		}
	}
	for _, w := range g.Waits {
		f.first[w.For+1]++
	}
	for i := range n {
		f.first[i+1] += f.first[i]
	}
	at := slices.Clone(f.first)
	for turn := range int32(n) {
		waits := g.WaitsOf(turn)
		f.left[turn] = int32(len(waits))
		if len(waits) == 0 {
			f.roots = append(f.roots, turn)
		}
		for _, w := range waits {
			f.heirs[at[w.For]] = heir{turn, w.Start, t.delayOf(w.Delay)}
			at[w.For]++
		}
	}
	slices.SortFunc(f.roots, func(a, b int32) int {
		if x, y := t.startOfRoot(a), t.startOfRoot(b); x != y {
			if x < y {
				return -1
			}
			return 1
		}
		return int(f.rank[a] - f.rank[b])
	})
	return f
}

// startOfRoot returns the arrival time of a turn without waits.
func (t *times) startOfRoot(turn int32) sim.Time {
	at := t.w.Graph.Arrival[turn]
	if t.closed || math.IsNaN(float64(at)) {
		return 0
	}
	return (at - t.origin) / t.speedup
}

// passOn ends the waits for a turn that has arrived (start) or completed. Turns without further waits become ready.
func (f *Feed) passOn(turn int32, now sim.Time, start bool) {
	g := f.graph
	for _, h := range g.heirs[g.first[turn]:g.first[turn+1]] {
		if h.start != start {
			continue
		}
		g.from[h.turn] = max(g.from[h.turn], now+h.delay)
		if g.left[h.turn]--; g.left[h.turn] == 0 {
			f.ready.Push(g.from[h.turn], g.rank[h.turn], h.turn)
		}
	}
}

// checkGraph checks the times and dependencies of a graph. Each turn must arrive after its dependencies.
func checkGraph(w *Workload, a Admission, t times) error {
	g, n := w.Graph, len(w.Turns)
	if len(g.First) != n+1 || len(g.Arrival) != n {
		panic(fmt.Sprintf("graph: %d and %d entries for %d turns", len(g.First), len(g.Arrival), n))
	}
	for turn := range int32(n) {
		waits := g.WaitsOf(turn)
		for _, wait := range waits {
			if d := t.delayOf(wait.Delay); !isFinite(d) || d < 0 {
				return w.errorAt(turn, "delay is %v, must be finite and >= 0", float64(d))
			}
		}
		if at := g.Arrival[turn]; len(waits) == 0 && a.Mode == Trace {
			if math.IsNaN(float64(at)) {
				return w.errorAt(turn, "the request waits for no other and has no timestamp, which trace mode needs")
			}
			if from := t.startOfRoot(turn); !isFinite(from) {
				return w.errorAt(turn, "timestamp %v becomes %v after shift and speed-up, must be a finite instant", float64(at), float64(from))
			}
		}
	}
	return g.checkOrder(w)
}

// checkOrder returns an error if turns wait for each other in a cycle.
func (g *Graph) checkOrder(w *Workload) error {
	n := int32(len(w.Turns))
	seen := make([]uint8, n) // 1: in progress; 2: done
	type visit struct{ turn, wait int32 }
	var open []visit
	for root := range n {
		if seen[root] != 0 {
			continue
		}
		seen[root], open = 1, append(open[:0], visit{turn: root})
		for len(open) > 0 {
			v := &open[len(open)-1]
			waits := g.WaitsOf(v.turn)
			if int(v.wait) == len(waits) {
				seen[v.turn] = 2
				open = open[:len(open)-1]
				continue
			}
			before := waits[v.wait].For
			v.wait++
			switch seen[before] {
			case 0:
				seen[before] = 1
				open = append(open, visit{turn: before})
			case 1:
				return w.errorAt(before, "the request waits for itself, through requests that wait for it: must be no cycle")
			}
		}
	}
	return nil
}
