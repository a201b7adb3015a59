package calibrate

import (
	"fmt"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// followers returns, for each request, the next request in its lane, -1 if there is none. followers returns nil if
// the requests have their own arrival times.
func (m *Measured) followers() []int {
	if m.InFlight == 0 {
		return nil
	}
	all, latest := make([]int, len(m.Requests)), map[int]int{}
	for i := range m.Requests {
		lane := m.Requests[i].Lane
		if before, ok := latest[lane]; ok {
			all[before] = i
		}
		all[i], latest[lane] = -1, i
	}
	return all
}

// runClosed runs a closed loop on the only engine of r. A request is submitted when the previous one in its lane has
// its last token.
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

// recordsOf returns the records of a replay of the run, in the order of the run's requests. In a closed loop, a
// record is identified by its lane and its position in the lane.
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
		lane := m.Requests[i].Lane
		if _, ok := sessions[lane]; !ok {
			sessions[lane] = int32(len(sessions))
		}
		sorted[i] = all[place[[2]int32{sessions[lane], turns[lane]}]]
		turns[lane]++
	}
	return sorted
}

// addLane makes a line of a trace a turn of its lane. The delay of a turn is the time that the request takes from the
// client to the engine.
func (m *Measured) addLane(line map[string]any, r *measured.Request) {
	if r.Lane == 0 {
		return
	}
	delete(line, "timestamp")
	if line["session_id"] = fmt.Sprint(r.Lane); r.Arrival > 0 {
		line["delay"] = 1000 * m.way.First
	}
}
