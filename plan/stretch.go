package plan

import (
	"cmp"
	"slices"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// leastStretch is the minimum number of sessions of a stretch.
const leastStretch = 200

// Stretch returns the busiest part of a workload: the sessions that begin in the time span of 1/2^part of its time in
// which the most tokens are requested. Stretch returns w itself for part 0, if a part would have too few sessions, or
// if sessions wait for each other or are not kept in memory.
func Stretch(w *loadgen.Workload, part int) *loadgen.Workload {
	if part == 0 || w.Source != nil || w.Graph != nil || len(w.Sessions)>>part < leastStretch {
		return w
	}
	order := make([]int32, len(w.Sessions))
	for i := range order {
		order[i] = int32(i)
	}
	arrival := func(i int32) sim.Time { return w.Sessions[i].Arrival }
	stable.Sort(order, func(a, b int32) int { return cmp.Compare(arrival(a), arrival(b)) })
	span := (arrival(order[len(order)-1]) - arrival(order[0])) / sim.Time(int(1)<<part)
	tokens := make([]int64, len(w.Sessions))
	for i := range w.Turns {
		t := &w.Turns[i]
		tokens[t.Session] += int64(t.Input) + int64(t.Output)
	}
	first, last, end, sum, most := 0, 0, 0, int64(0), int64(-1)
	for begin := range order {
		for end < len(order) && (arrival(order[end]) < arrival(order[begin])+span || end == begin) {
			sum += tokens[order[end]]
			end++
		}
		if sum > most {
			first, last, most = begin, end, sum
		}
		sum -= tokens[order[begin]]
	}
	if last-first < leastStretch {
		return w
	}
	kept := slices.Clone(order[first:last])
	slices.Sort(kept)
	return keepSessions(w, kept)
}

// keepSessions returns a workload with some sessions of w, in the same order.
func keepSessions(w *loadgen.Workload, kept []int32) *loadgen.Workload {
	o := *w
	o.Sessions, o.Turns = make([]loadgen.Session, len(kept)), nil
	o.Priorities, o.ClassesOf = nil, nil
	place := make([]int32, len(w.Sessions)) // number of a session in o, from 1
	for i, session := range kept {
		o.Sessions[i] = w.Sessions[session]
		o.Sessions[i].First = -1
		place[session] = int32(i) + 1
	}
	last := make([]int32, len(kept)) // last turn of each session so far
	for i := range w.Turns {
		t := w.Turns[i]
		if place[t.Session] == 0 {
			continue
		}
		t.Session = place[t.Session] - 1
		t.Next = -1
		turn := int32(len(o.Turns))
		if s := &o.Sessions[t.Session]; s.First < 0 {
			s.First = turn
		} else {
			o.Turns[last[t.Session]].Next = turn
		}
		last[t.Session] = turn
		o.Turns = append(o.Turns, t)
		if w.Priorities != nil {
			o.Priorities = append(o.Priorities, w.Priorities[i])
		}
		if w.ClassesOf != nil {
			o.ClassesOf = append(o.ClassesOf, w.ClassesOf[i])
		}
	}
	return &o
}
