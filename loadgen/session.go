package loadgen

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/sim"
)

// Feed decides when requests arrive: a turn becomes ready a while after the one
// before has completed. At most one turn of a session is in flight.
type Feed struct {
	requests requests
	times    times
	limit    int  // requests in flight; as many as there can be in trace mode
	closed   bool // concurrency mode
	flat     bool // no request waits for another: first turns are all there are

	stop     sim.Time // see Admission; 0: never
	perRound int      // starts in each round of a workload that is recycled; 0: it is not
	held     bool     // fresh is the first of a round that has not begun
	begun    sim.Time // when the latest round began
	seen     sim.Time // the latest instant of a call

	graph *graphFeed // nil if turns wait for nothing but the turn before

	streamed *streamed // nil if all requests are kept

	order    []int32   // sessions by start; nil when they are in order as they are
	starts   int       // sessions, or turns of a graph that do not wait
	started  int       // of them, with their first turn taken
	fresh    readyTurn // the first turn of the session after those; of no meaning when there is none
	ready    heap.Heap[sim.Time, int32, int32]
	turnOf   []int32 // by request: its turn, or -1 once finished; empty when flat
	inFlight int     // requests taken and not finished; 0 when flat
}

func newFeed(r requests, t times, a Admission, flat bool) *Feed {
	f := &Feed{requests: r, times: t, limit: math.MaxInt, closed: a.Mode == Concurrency, flat: flat, starts: len(t.w.Sessions)}
	if !flat {
		f.turnOf = make([]int32, 0, len(t.w.Turns))
		f.ready = make(heap.Heap[sim.Time, int32, int32], 0, len(t.w.Sessions)) // all of them, at most
	}
	switch {
	case t.w.Graph != nil:
		f.graph = newGraphFeed(&f.times)
		f.starts = len(f.graph.roots)
	case !f.closed:
		f.order = t.sortSessions()
	}
	if f.closed {
		f.limit = a.MaxInFlight // all sessions start at 0
	}
	if f.stop = a.Stop; t.w.Rounds > 0 {
		f.perRound = f.starts / t.w.Rounds
	}
	if t.w.Source == nil {
		f.findFresh()
	}
	return f
}

// sortSessions lists the sessions by start, equal ones in order of appearance; nil
// reports that they are in that order already.
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
		return cmp.Or(cmp.Compare(t.startOf(a), t.startOf(b)), cmp.Compare(a, b))
	})
	return order
}

// findFresh finds the first turn of the next session.
func (f *Feed) findFresh() {
	if f.readsOneByOne() {
		f.findStreamed()
		return
	}
	if f.allStarted() {
		return
	}
	if f.graph != nil {
		turn := f.graph.roots[f.started]
		f.fresh = readyTurn{Key: f.times.startOfRoot(turn), Tie: f.graph.rank[turn], Value: turn}
		f.holdFresh()
		return
	}
	session := int32(f.started)
	if f.order != nil {
		session = f.order[f.started]
	}
	f.fresh = readyTurn{Key: f.times.startOf(session), Tie: session, Value: f.times.w.Sessions[session].First}
	f.holdFresh()
}

// holdFresh keeps the first session of a round back, and lets those after it be ready from the
// instant on at which their round began.
func (f *Feed) holdFresh() {
	if f.perRound == 0 || f.started < f.perRound {
		return
	}
	f.fresh.Key = f.begun
	if f.held = f.started%f.perRound == 0; f.held {
		f.fresh.Key = sim.Time(math.Inf(1))
	}
}

// beginRound lets the next round begin where there is room at now and nothing else to come. It
// reports whether it does.
func (f *Feed) beginRound(now sim.Time) bool {
	if !f.held {
		return false
	}
	f.held, f.begun, f.fresh.Key = false, now, now
	return true
}

// earliest is the earliest instant, not before now, at which a request can come if there is room.
func (f *Feed) earliest(now sim.Time) (at sim.Time, ok bool) {
	r, _, ok := f.peekReady()
	if at = max(now, r.Key); f.held {
		at = now
	}
	return at, ok && (f.stop == 0 || at < f.stop)
}

func (f *Feed) allStarted() bool { return f.started == f.starts }

// peekReady is the earliest turn that is or becomes ready.
func (f *Feed) peekReady() (r readyTurn, fresh, ok bool) {
	if len(f.ready) > 0 && (f.allStarted() || f.ready[0].Before(f.fresh)) {
		return f.ready[0], false, true
	}
	return f.fresh, true, !f.allStarted()
}

// Next is the earliest instant, not before now, at which Take would give a
// request, when that is known now. inFlight is the number of requests in the
// cluster.
func (f *Feed) Next(now sim.Time, inFlight int) (sim.Time, bool) {
	if inFlight >= f.limit || f.flat && f.closed {
		return 0, false // only a completion makes room
	}
	f.seen = max(f.seen, now)
	return f.earliest(now)
}

// Take appends the requests that arrive at or before now, in order, and
// numbers them.
func (f *Feed) Take(now sim.Time, inFlight int, dst []Arrival) []Arrival {
	f.seen = max(f.seen, now)
	if f.stop > 0 && now >= f.stop {
		return dst
	}
	for room := f.limit - inFlight; room > 0; room-- {
		r, fresh, ok := f.peekReady()
		if ok && r.Key > now && f.beginRound(now) {
			r, fresh, ok = f.peekReady()
		}
		if !ok || r.Key > now {
			return dst
		}
		if f.readsOneByOne() {
			a, err := f.takeStreamed(r, fresh)
			if err != nil {
				return dst
			}
			dst = append(dst, a)
			continue
		}
		if fresh {
			f.started++
			f.findFresh()
		} else {
			f.ready.Pop()
		}
		if !f.flat {
			f.turnOf = append(f.turnOf, r.Value)
			f.inFlight++
		}
		arrives := r.Key
		if f.closed {
			arrives = now
		}
		q, err := f.requestOf(r.Value, arrives)
		if err != nil {
			return dst
		}
		dst = append(dst, Arrival{q, arrives})
		if f.graph != nil {
			f.passOn(r.Value, arrives, true)
		}
	}
	return dst
}

// requestOf makes the request of a turn. Feed.Err has the error, too.
func (f *Feed) requestOf(turn int32, arrives sim.Time) (*sim.Request, error) {
	if f.streamed != nil {
		return f.readTurn(turn, arrives)
	}
	return f.requests.makeRequest(turn, arrives), nil
}

// readsOneByOne reports whether turns are known only when they are read: they are not kept, and no graph has their dependencies.
func (f *Feed) readsOneByOne() bool { return f.streamed != nil && f.graph == nil }

// Finish notes that a request completed at now, and makes the session's next turn
// ready after its delay.
func (f *Feed) Finish(id sim.RequestID, now sim.Time) error {
	if f.flat {
		if id < 0 || id >= f.requests.next {
			return fmt.Errorf("request %d finished at %v ms, but only %d have arrived", id, float64(now), f.requests.next)
		}
		return nil // no turn waits for it
	}
	if f.readsOneByOne() {
		return f.endStreamed(id, now, true)
	}
	if id < 0 || int(id) >= len(f.turnOf) || f.turnOf[id] < 0 {
		return fmt.Errorf("request %d finished at %v ms, but it is not in flight", id, float64(now))
	}
	place := f.turnOf[id]
	turn := &f.times.w.Turns[place]
	f.turnOf[id] = -1
	f.inFlight--
	if f.graph != nil {
		f.passOn(place, now, false)
		return nil
	}
	if turn.Next >= 0 {
		f.ready.Push(now+f.times.delayBefore(turn.Next), turn.Session, turn.Next)
	}
	return nil
}

// Abandon notes that a request has ended without completing: it is in flight
// no more, and the turns after it never come.
func (f *Feed) Abandon(id sim.RequestID) error {
	if f.flat {
		return f.Finish(id, 0)
	}
	if f.readsOneByOne() {
		return f.endStreamed(id, 0, false)
	}
	if id < 0 || int(id) >= len(f.turnOf) || f.turnOf[id] < 0 {
		return fmt.Errorf("request %d was abandoned, but it is not in flight", id)
	}
	f.turnOf[id] = -1
	f.inFlight--
	return nil
}

// Done reports whether no request is left to come. Where completions bring new
// requests, it is also needed that none that was taken is unfinished.
func (f *Feed) Done() bool {
	if f.stop > 0 && f.inFlight == 0 {
		_, ok := f.earliest(f.seen)
		return !ok
	}
	return f.inFlight == 0 && len(f.ready) == 0 && f.allStarted()
}

// RanOut reports whether all sessions have begun.
func (f *Feed) RanOut() bool { return f.allStarted() }

// Independent reports whether what comes, and when, does not depend on when
// requests finish, so that workers may be let run ahead.
func (f *Feed) Independent() bool { return f.flat && !f.closed }

// Reclaim gives f the memory of one of its requests that has finished and is
// no longer read; later requests are made of it.
func (f *Feed) Reclaim(r *sim.Request) { f.requests.reclaimRequest(r) }

// readyTurn is a turn that can be taken from an instant, its Key, on; of turns
// of the same instant that of the lowest session, its Tie, comes first. A session
// has one ready turn at most, so this is a total order. In a graph, where a task may have
// several, Tie is the turn's own rank.
type readyTurn = heap.Item[sim.Time, int32, int32]
