package calibrate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// layLanes puts the requests of a closed loop, in order of completion and with times from their
// arrival on, into lanes: in each of them one follows the other at once. Who took how long says about when
// each began. Once the session has begun whose first turn is at last, no new one takes the place of one that ends,
// and lanes end evenly with the requests that are left.
func (m *Measured) layLanes(last int) {
	all, n := m.Requests, len(m.Requests)
	begins, served := make([]float64, n), 0.0
	for i := range all {
		served += all[i].Last
		begins[i] = served/float64(m.InFlight) - all[i].Last
	}
	final := begins[last]
	slices.SortStableFunc(all, func(a, b Request) int { return cmp.Compare(begins[a.Place], begins[b.Place]) })
	var lanes heap.Heap[float64, int, int] // by when they are free
	for k := range min(m.InFlight, n) {
		lanes.Push(0, k, k)
	}
	from := slices.IndexFunc(all, func(r Request) bool { return begins[r.Place] >= final })
	for i := range all {
		if from <= i {
			left := (m.InFlight*(n-i) + n - from - 1) / (n - from)
			for len(lanes) > max(left, 1) {
				lanes.Pop()
			}
		}
		l := lanes.Pop()
		r := &all[i]
		r.lane, r.Arrival = l.Value+1, l.Key
		r.First, r.Last = r.Arrival+r.First, r.Arrival+r.Last
		lanes.Push(r.Last, l.Tie, l.Value)
	}
}

// followers returns, by request, the one that follows it in its lane, -1 where there is none; nil where requests arrive by
// themselves.
func (m *Measured) followers() []int {
	if m.InFlight == 0 {
		return nil
	}
	all, latest := make([]int, len(m.Requests)), map[int]int{}
	for i := range m.Requests {
		lane := m.Requests[i].lane
		if before, ok := latest[lane]; ok {
			all[before] = i
		}
		all[i], latest[lane] = -1, i
	}
	return all
}

// runClosed runs a closed loop on the one engine of r: a request is submitted when the one before it in its lane
// has got its last token.
func (r *server) runClosed() error {
	e := r.front.engines[0]
	follows := make([]bool, len(r.requests))
	for _, next := range r.next {
		if next >= 0 {
			follows[next] = true
		}
	}
	for i := range r.requests {
		if !follows[i] {
			r.out.Begun[i] = 0
			e.core.Submit(&r.requests[i])
		}
	}
	for e.core.Load() > 0 || len(e.queue) > 0 {
		if e.core.Load() == 0 {
			e.now = max(e.now, sim.Time(1000*r.out.Begun[e.queue[0]]))
		}
		for len(e.queue) > 0 && sim.Time(1000*r.out.Begun[e.queue[0]]) <= e.now {
			e.core.Submit(&r.requests[e.queue[0]])
			e.queue = e.queue[1:]
		}
		until := sim.Time(1e300)
		if len(e.queue) > 0 {
			until = sim.Time(1000 * r.out.Begun[e.queue[0]])
		}
		if err := r.stepEngine(e, until); err != nil {
			return err
		}
		for _, mark := range e.pass.Marks {
			if next := r.next[mark.Request]; mark.Last && next >= 0 {
				r.out.Begun[next] = float64(e.now)/1000 + r.out.Way.First
				e.queue = append(e.queue, next)
			}
		}
	}
	return nil
}

// recordsOf returns what a replay of the run remembers of each request, in the order of the run's. In a closed loop
// they are told apart by lane and by place in it.
func (m *Measured) recordsOf(result *harness.Result) []collector.Record {
	all := result.Collector.Records()
	if m.InFlight == 0 || len(all) != len(m.Requests) {
		return all
	}
	place := map[[2]int32]int{}
	for i := range all {
		place[[2]int32{all[i].Session, all[i].Turn}] = i
	}
	sorted, sessions, turns := make([]collector.Record, len(all)), map[int]int32{}, map[int]int32{}
	for i := range m.Requests {
		lane := m.Requests[i].lane
		if _, ok := sessions[lane]; !ok {
			sessions[lane] = int32(len(sessions))
		}
		sorted[i] = all[place[[2]int32{sessions[lane], turns[lane]}]]
		turns[lane]++
	}
	return sorted
}

// addLane makes a line of a trace a turn of its lane: the next request is with the engine as much later as the client
// is away from it.
func (m *Measured) addLane(line map[string]any, r *Request) {
	if r.lane == 0 {
		return
	}
	delete(line, "timestamp")
	if line["session_id"] = fmt.Sprint(r.lane); r.Arrival > 0 {
		line["delay"] = 1000 * m.way.First
	}
}
