package loadgen

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// flatQueue feeds requests of which none waits for another.
type flatQueue struct {
	requests requests
	times    times
	limit    int      // requests in flight in concurrency mode, 0 in trace mode
	order    []int32  // sessions by arrival; nil when they are in order as they are
	taken    int      // sessions
	next     sim.Time // trace mode: start of the session after those; not read when there is none
}

func newFlatQueue(r requests, t times, a Admission) *flatQueue {
	f := &flatQueue{requests: r, times: t}
	if a.Mode == Concurrency {
		f.limit = a.MaxInFlight
		return f
	}
	f.order = t.sortSessions()
	f.findNext()
	return f
}

// findNext finds the start of the next session.
func (f *flatQueue) findNext() {
	if !f.Done() {
		f.next = f.times.startOf(placeIn(f.order, f.taken))
	}
}

// sortSessions lists the sessions by start, equal ones in order of appearance; nil
// says that they are in that order already.
func (t *times) sortSessions() []int32 {
	inOrder := true
	for i := 1; inOrder && i < len(t.w.Sessions); i++ {
		inOrder = t.startOf(int32(i-1)) <= t.startOf(int32(i))
	}
	if inOrder {
		return nil
	}
	order := make([]int32, len(t.w.Sessions))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if c := cmp.Compare(t.startOf(a), t.startOf(b)); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	return order
}

// placeIn returns place n of an order that is nil when it is the natural one.
func placeIn(order []int32, n int) int32 {
	if order == nil {
		return int32(n)
	}
	return order[n]
}

func (f *flatQueue) Next(now sim.Time, _ int) (sim.Time, bool) {
	if f.limit > 0 || f.Done() {
		return 0, false // in closed loop only a completion makes room
	}
	return max(now, f.next), true
}

func (f *flatQueue) Take(now sim.Time, inFlight int, dst []Arrival) []Arrival {
	if f.limit == 0 {
		for !f.Done() && f.next <= now {
			dst = append(dst, Arrival{f.makeNext(), f.next})
			f.findNext()
		}
		return dst
	}
	for room := f.limit - inFlight; room > 0 && !f.Done(); room-- {
		dst = append(dst, Arrival{f.makeNext(), now})
	}
	return dst
}

// makeNext makes the request of the next session.
func (f *flatQueue) makeNext() *sim.Request {
	session := placeIn(f.order, f.taken)
	f.taken++
	return f.requests.makeRequest(f.times.w.Sessions[session].First)
}

// Finish changes nothing: nobody waits for the request.
func (f *flatQueue) Finish(id sim.RequestID, now sim.Time) error {
	if id < 0 || id >= f.requests.next {
		return fmt.Errorf("request %d finished at %v ms, but only %d have arrived", id, float64(now), f.requests.next)
	}
	return nil
}

func (f *flatQueue) Done() bool { return f.taken == len(f.times.w.Sessions) }

func (f *flatQueue) Independent() bool { return f.limit == 0 }
