package loadgen

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/sim"
)

// sessionDriver feeds sessions: a turn becomes ready a while after the one
// before has completed. At most one turn of a session is in flight.
type sessionDriver struct {
	requests requests
	times    times
	limit    int // requests in flight; as many as there can be in trace mode
	closed   bool

	order    []int32 // sessions by start; nil when they are in order as they are
	started  int     // sessions whose first turn was taken
	ready    heap.Heap[sim.Time, int32, int32]
	turnOf   []int32 // by request: its turn, or -1 once finished
	inFlight int     // requests taken and not finished
}

func newSessionDriver(r requests, t times, a Admission) *sessionDriver {
	d := &sessionDriver{requests: r, times: t, limit: math.MaxInt, closed: a.Mode == Concurrency}
	d.turnOf = make([]int32, 0, len(t.w.Turns))
	d.ready = make(heap.Heap[sim.Time, int32, int32], 0, len(t.w.Sessions)) // all of them, at most
	if d.closed {
		d.limit = a.MaxInFlight
		return d // all sessions start at 0
	}
	d.order = t.sortSessions()
	return d
}

// peekReady is the earliest turn that is or becomes ready.
func (d *sessionDriver) peekReady() (r readyTurn, fresh, ok bool) {
	if len(d.ready) > 0 {
		r, ok = d.ready[0], true
	}
	if d.started == len(d.times.w.Sessions) {
		return r, false, ok
	}
	session := placeIn(d.order, d.started)
	start := readyTurn{Key: d.times.startOf(session), Tie: session, Value: d.times.w.Sessions[session].First}
	if ok && r.Before(start) {
		return r, false, true
	}
	return start, true, true
}

func (d *sessionDriver) Next(now sim.Time, inFlight int) (sim.Time, bool) {
	if inFlight >= d.limit {
		return 0, false
	}
	r, _, ok := d.peekReady()
	return max(now, r.Key), ok
}

func (d *sessionDriver) Take(now sim.Time, inFlight int, dst []Arrival) []Arrival {
	for room := d.limit - inFlight; room > 0; room-- {
		r, fresh, ok := d.peekReady()
		if !ok || r.Key > now {
			return dst
		}
		if fresh {
			d.started++
		} else {
			d.ready.Pop()
		}
		d.turnOf = append(d.turnOf, r.Value)
		d.inFlight++
		arrives := r.Key
		if d.closed {
			arrives = now
		}
		dst = append(dst, Arrival{d.requests.makeRequest(r.Value), arrives})
	}
	return dst
}

// Finish makes the session's next turn ready after its delay.
func (d *sessionDriver) Finish(id sim.RequestID, now sim.Time) error {
	if id < 0 || int(id) >= len(d.turnOf) || d.turnOf[id] < 0 {
		return fmt.Errorf("request %d finished at %v ms, but it is not in flight", id, float64(now))
	}
	turn := &d.times.w.Turns[d.turnOf[id]]
	d.turnOf[id] = -1
	d.inFlight--
	if turn.Next >= 0 {
		d.ready.Push(now+d.times.delayBefore(turn.Next), turn.Session, turn.Next)
	}
	return nil
}

func (d *sessionDriver) Done() bool {
	return d.inFlight == 0 && len(d.ready) == 0 && d.started == len(d.times.w.Sessions)
}

func (d *sessionDriver) Independent() bool { return false }

// readyTurn is a turn that can be taken from an instant, its Key, on; of turns
// of the same instant that of the lowest session, its Tie, comes first. A session
// has one ready turn at most, so this is a total order.
type readyTurn = heap.Item[sim.Time, int32, int32]
