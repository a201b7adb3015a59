package loadgen

import (
	"fmt"
	"math"

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
	ready    readyHeap
	turnOf   []int32 // by request: its turn, or -1 once finished
	inFlight int     // requests taken and not finished
}

func newSessionDriver(r requests, t times, a Admission) *sessionDriver {
	d := &sessionDriver{requests: r, times: t, limit: math.MaxInt, closed: a.Mode == Concurrency}
	d.turnOf = make([]int32, 0, len(t.w.Turns))
	if d.closed {
		d.limit = a.MaxInFlight
		return d // all sessions start at 0
	}
	d.order = t.sorted()
	return d
}

// peek is the earliest turn that is or becomes ready.
func (d *sessionDriver) peek() (r readyTurn, fresh, ok bool) {
	if len(d.ready) > 0 {
		r, ok = d.ready[0], true
	}
	if d.started == len(d.times.w.Sessions) {
		return r, false, ok
	}
	session := at(d.order, d.started)
	start := readyTurn{d.times.start(session), session, d.times.w.Sessions[session].First}
	if ok && r.before(start) {
		return r, false, true
	}
	return start, true, true
}

func (d *sessionDriver) Next(now sim.Time, inFlight int) (sim.Time, bool) {
	if inFlight >= d.limit {
		return 0, false
	}
	r, _, ok := d.peek()
	return max(now, r.at), ok
}

func (d *sessionDriver) Take(now sim.Time, inFlight int, dst []Arrival) []Arrival {
	for room := d.limit - inFlight; room > 0; room-- {
		r, fresh, ok := d.peek()
		if !ok || r.at > now {
			return dst
		}
		if fresh {
			d.started++
		} else {
			d.ready.pop()
		}
		d.turnOf = append(d.turnOf, r.turn)
		d.inFlight++
		arrives := r.at
		if d.closed {
			arrives = now
		}
		dst = append(dst, Arrival{d.requests.make(r.turn), arrives})
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
		d.ready.push(readyTurn{now + d.times.delay(turn.Next), turn.Session, turn.Next})
	}
	return nil
}

func (d *sessionDriver) Done() bool {
	return d.inFlight == 0 && len(d.ready) == 0 && d.started == len(d.times.w.Sessions)
}

func (d *sessionDriver) Independent() bool { return false }

// readyTurn is a turn that can be taken from an instant on.
type readyTurn struct {
	at      sim.Time
	session int32
	turn    int32
}

// before orders by instant, then by session. A session has one ready turn at
// most, so this is a total order.
func (r readyTurn) before(o readyTurn) bool {
	if r.at != o.at {
		return r.at < o.at
	}
	return r.session < o.session
}

// readyHeap is a binary heap with the earliest turn at its head.
type readyHeap []readyTurn

func (h *readyHeap) push(r readyTurn) {
	*h = append(*h, r)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !r.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = r
}

func (h *readyHeap) pop() {
	s := *h
	last := len(s) - 1
	r := s[last]
	s = s[:last]
	*h = s
	if last == 0 {
		return
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s[child+1].before(s[child]) {
			child++
		}
		if !s[child].before(r) {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = r
}
