package loadgen

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/heap"
	"github.com/replay-llm/replay/sim"
)

// Feed determines when requests arrive. A turn becomes ready with a delay after the completion of the previous turn.
// At most one turn of a session is in flight.
type Feed struct {
	requests requests
	times    times
	limit    int  // maximum number of requests in flight; unlimited in trace mode
	closed   bool // concurrency mode
	flat     bool // no request waits for another, and all turns are first turns

	stop     sim.Time // see Admission; 0: no stop
	perRound int      // number of starts in each round of a recycled workload; 0: not recycled
	held     bool     // fresh is the first turn of a round that has not begun
	begun    sim.Time // time at which the latest round began
	seen     sim.Time // latest time of a call

	graph *graphFeed // nil if turns only wait for the previous turn

	streamed *streamed // nil if all requests are kept

	order    []int32   // sessions ordered by start; nil if they are already in order
	starts   int       // number of sessions, or of turns without waits in a graph
	started  int       // number of starts that were taken
	fresh    readyTurn // first turn of the next session; invalid if all sessions have started
	ready    heap.Heap[sim.Time, int32, int32]
	turnOf   []int32 // by request: its turn, or -1 when finished; empty if flat
	inFlight int     // number of requests that were taken and not finished; 0 if flat
}

func newFeed(r requests, t times, a Admission, flat bool) *Feed {
	f := &Feed{requests: r, times: t, limit: math.MaxInt, closed: a.Mode == Concurrency, flat: flat, starts: len(t.w.Sessions)}
	if !flat {
		f.turnOf = make([]int32, 0, len(t.w.Turns))
		f.ready = make(heap.Heap[sim.Time, int32, int32], 0, len(t.w.Sessions)) // at most all sessions are ready
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

// sortSessions returns the sessions ordered by start, then by order of appearance. sortSessions returns nil if the
// sessions are already in order.
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

// findFresh sets fresh to the first turn of the next session.
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

// holdFresh sets the ready time of the next session in a later round. The first session of a round is held until the
// round begins. The other sessions are ready when the round began.
func (f *Feed) holdFresh() {
	if f.perRound == 0 || f.started < f.perRound {
		return
	}
	f.fresh.Key = f.begun
	if f.held = f.started%f.perRound == 0; f.held {
		f.fresh.Key = sim.Time(math.Inf(1))
	}
}

// beginRound begins the next round if its first session is held. beginRound reports whether the round began.
func (f *Feed) beginRound(now sim.Time) bool {
	if !f.held {
		return false
	}
	f.held, f.begun, f.fresh.Key = false, now, now
	return true
}

// earliest returns the earliest time, not before now, at which a request can arrive if one can be admitted.
func (f *Feed) earliest(now sim.Time) (at sim.Time, ok bool) {
	r, _, ok := f.peekReady()
	if at = max(now, r.Key); f.held {
		at = now
	}
	return at, ok && (f.stop == 0 || at < f.stop)
}

func (f *Feed) allStarted() bool { return f.started == f.starts }

// peekReady returns the earliest turn that is ready or becomes ready. fresh reports whether it is a first turn.
func (f *Feed) peekReady() (r readyTurn, fresh, ok bool) {
	if len(f.ready) > 0 && (f.allStarted() || f.ready[0].Before(f.fresh)) {
		return f.ready[0], false, true
	}
	return f.fresh, true, !f.allStarted()
}

// Next returns the earliest time, not before now, at which Take would return a request. Next reports false if the
// time is not known. inFlight is the number of requests in the cluster.
func (f *Feed) Next(now sim.Time, inFlight int) (sim.Time, bool) {
	if inFlight >= f.limit || f.flat && f.closed {
		return 0, false // a request can only arrive after a completion
	}
	f.seen = max(f.seen, now)
	return f.earliest(now)
}

// Take appends the requests that arrive at or before now, in order, and assigns their ids.
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

// requestOf creates the request of a turn. Feed.Err also returns the error.
func (f *Feed) requestOf(turn int32, arrives sim.Time) (*sim.Request, error) {
	if f.streamed != nil {
		return f.readTurn(turn, arrives)
	}
	return f.requests.makeRequest(turn, arrives), nil
}

// readsOneByOne reports whether turns are read one by one from a Source, without a graph.
func (f *Feed) readsOneByOne() bool { return f.streamed != nil && f.graph == nil }

// Finish records that a request completed at now. The next turn of its session becomes ready after its delay.
func (f *Feed) Finish(id sim.RequestID, now sim.Time) error {
	if f.flat {
		if id < 0 || id >= f.requests.next {
			return fmt.Errorf("request %d finished at %v ms, but only %d have arrived", id, float64(now), f.requests.next)
		}
		return nil // no turn waits for the request
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

// Abandon records that a request ended without completing. The request is no longer in flight, and later turns of its
// session never arrive.
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

// Done reports whether no request will arrive. If completions can cause arrivals, it reports false while requests are
// in flight.
func (f *Feed) Done() bool {
	if f.stop > 0 && f.inFlight == 0 {
		_, ok := f.earliest(f.seen)
		return !ok
	}
	return f.inFlight == 0 && len(f.ready) == 0 && f.allStarted()
}

// RanOut reports whether all sessions have begun.
func (f *Feed) RanOut() bool { return f.allStarted() }

// Independent reports whether arrivals do not depend on completions. In this case workers may be simulated ahead of
// time.
func (f *Feed) Independent() bool { return f.flat && !f.closed }

// Reclaim returns the memory of a finished request to f for new requests. The caller must not read the request any
// more.
func (f *Feed) Reclaim(r *sim.Request) { f.requests.reclaimRequest(r) }

// readyTurn is a turn that can be taken from the time Key. Turns at the same time are ordered by Tie, which is the
// session. The order of ready turns is total, because a session has at most one ready turn. In a graph, Tie is the
// rank of the turn.
type readyTurn = heap.Item[sim.Time, int32, int32]
