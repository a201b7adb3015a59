package plan

import (
	"cmp"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// Grow returns a workload with factor times the sessions of w, in the same time. Each session occurs as often as the
// integer part of factor; the fractional part adds sessions spread evenly in order of arrival. An added session is a
// copy that arrives between its original and the next arrival, at a random time. An added session shares hash ids
// with the same other sessions as its original. A factor below 1 drops sessions, spread evenly. Sessions of w must
// not wait for one another.
func Grow(w *loadgen.Workload, factor float64, seed uint64) *loadgen.Workload {
	if factor == 1 {
		return w
	}
	r := NewResampler(w, seed)
	rand := sim.NewRand(seed, "growth")
	type grown struct {
		session int32
		arrival sim.Time
		again   bool
	}
	var all []grown
	due := 0.5 // of the next session
	for place, session := range r.order {
		at := w.Sessions[session].Arrival
		next := at
		if place+1 < len(r.order) {
			next = w.Sessions[r.order[place+1]].Arrival
		}
		due += factor
		for again := false; due >= 1; again = true {
			due--
			g := grown{session, at, again}
			if again {
				g.arrival += (next - at) * sim.Time(rand.Float64())
			}
			all = append(all, g)
		}
	}
	stable.Sort(all, func(a, b grown) int { return cmp.Compare(a.arrival, b.arrival) })
	o := *w
	o.Sessions, o.Turns = make([]loadgen.Session, 0, len(all)), make([]loadgen.Turn, 0, int(float64(len(w.Turns))*factor)+1)
	o.Priorities, o.ClassesOf = nil, nil
	fresh := copies{next: r.top, of: r.private}
	for i := range all {
		r.addSession(&o, all[i].session, all[i].again, &fresh)
		o.Sessions[i].Arrival = all[i].arrival
	}
	return &o
}
