package loadgen

import (
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/sliding"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Source returns the requests of a workload that is not kept in memory, in order of arrival.
type Source interface {
	// Next reads the first turn of the next session into in. Arrivals do not decrease. Next returns io.EOF after the
	// last session.
	Next(in *Incoming) error
	// MultiTurn reports whether some session has two turns or more.
	MultiTurn() bool
	// Later reads a later turn into in. next is the value of Incoming.Next of the previous turn.
	Later(next int64, in *Incoming) error
	// SessionID returns the name of the session of a turn, by the line in the file.
	SessionID(session, line int32) (string, error)
	// Classes returns the names of the classes in the file, DefaultClass first. Classes returns nil if there are no
	// classes.
	Classes() []string
	// Dropped returns the counts of dropped rows so far.
	Dropped() Dropped
	// Close closes the input of the source.
	Close() error
}

// GraphSource is a Source of requests that wait for each other. The argument next of Later is 1 + the index of a turn
// in Skeleton. Next is not called.
type GraphSource interface {
	Source
	// Skeleton returns the workload with its Graph. The turns of the skeleton have no block ids.
	Skeleton() *Workload
}

// Incoming is a request of a Source.
type Incoming struct {
	At       sim.Time // arrival of a first turn in the trace
	IDs      []uint64
	Input    int32 // prompt tokens
	Output   int32 // requested output tokens
	Line     int32 // line in the file, starting at 1
	Priority int32
	Class    int32 // index in Classes of the Source
	Session  int32 // number of the session in file order
	Turn     int32 // index in the session
	Turns    int32 // number of turns of the session

	Next      int64    // argument of Later for the next turn of the session; 0: none
	NextDelay sim.Time // delay after the completion of this turn
}

// Close closes the Source of w, if there is one.
func (w *Workload) Close() error {
	if w.Source == nil {
		return nil
	}
	return w.Source.Close()
}

// streamed is the state of a feed that reads requests one by one.
type streamed struct {
	source  Source
	tree    *prompt.Tree
	next    Incoming
	at      sim.Time // simulated arrival time of next
	more    bool     // next is valid
	started bool
	read    int // number of calls of readNext
	err     error
	all     []*sim.Request // all allocated requests

	// State of sessions: the next turns of unfinished requests, and the turns with a known ready time. Values in
	// Feed.ready are indices in waiting.
	open    sliding.Table[openTurn]
	waiting []int64 // arguments of Source.Later
	vacant  []int32 // unused indices in waiting
	later   Incoming
}

// openTurn has the next turn of a request in flight.
type openTurn struct {
	known   bool
	session int32
	next    int64 // argument of Source.Later for the next turn; 0: none
	delay   sim.Time
}

// NewStreamedFeed returns the feed for a workload with a Source, in trace mode. Prompts are added to tree when their
// requests arrive. tree must be able to forget prompts. The caller must check Feed.Err at the end.
func NewStreamedFeed(w *Workload, tree *prompt.Tree, a Admission) (*Feed, error) {
	if a.Mode != Trace {
		return nil, fmt.Errorf("%s: the trace is not kept, requires replay trace", w.Name)
	}
	if err := a.check(w); err != nil {
		return nil, err
	}
	if g, ok := w.Source.(GraphSource); ok {
		return newStreamedGraphFeed(w, g, tree, a)
	}
	f := newFeed(requests{w: w}, times{w: w, speedup: sim.Time(a.Speedup), first: sim.Time(a.Speedup)}, a, a.Stop == 0 && !w.MultiTurn())
	f.streamed = &streamed{source: w.Source, tree: tree}
	f.findFresh()
	return f, f.streamed.err
}

// newStreamedGraphFeed returns the feed for a workload with a GraphSource.
func newStreamedGraphFeed(w *Workload, g GraphSource, tree *prompt.Tree, a Admission) (*Feed, error) {
	skeleton := g.Skeleton()
	times := newTimes(skeleton, a)
	if err := checkWorkload(skeleton, a, times); err != nil {
		return nil, err
	}
	f := newFeed(requests{w: w}, times, a, false)
	f.streamed = &streamed{source: g, tree: tree}
	return f, nil
}

// readTurn creates the request of a turn in a graph.
func (f *Feed) readTurn(turn int32, at sim.Time) (*sim.Request, error) {
	s := f.streamed
	err := s.source.Later(int64(turn)+1, &s.later)
	if err == nil {
		err = s.later.check(f.times.w, at)
	}
	if err != nil {
		s.err = err
		return nil, err
	}
	return f.makeStreamed(&s.later, at), nil
}

// readNext reads the next request.
func (s *streamed) readNext(t *times) {
	if s.more = false; s.err != nil {
		return
	}
	if s.err = s.source.Next(&s.next); s.err == io.EOF {
		s.err = nil
		return
	}
	if s.err != nil {
		return
	}
	if !s.started {
		t.origin, s.started = s.next.At, true
	}
	s.more = true
	s.findInstant(t)
}

// findInstant computes the arrival time of the next request.
func (s *streamed) findInstant(t *times) {
	in := &s.next
	s.at = t.scale(in.At)
	s.err = in.check(t.w, s.at)
	s.more = s.err == nil
}

// check returns an error for a request without a prompt, or with an arrival that is not finite.
func (in *Incoming) check(w *Workload, at sim.Time) error {
	place := func(format string, args ...any) error {
		return &SyntaxError{Name: w.Name, Line: int(in.Line), Msg: fmt.Sprintf(format, args...)}
	}
	switch {
	case !isFinite(at):
		return place("timestamp %v becomes %v after shift and speed-up, must be a finite instant", float64(in.At), float64(at))
	case in.Input <= 0 && len(in.IDs) == 0:
		return place("input_length is 0 because hash_ids is empty, must be > 0")
	case in.Input <= 0:
		return place("input_length is %d, must be > 0", in.Input)
	}
	return nil
}

// findStreamed sets fresh to the next request of the source.
func (f *Feed) findStreamed() {
	s := f.streamed
	if s.read == f.started { // the current request was taken
		s.readNext(&f.times)
		s.read++
	} else if s.more {
		s.findInstant(&f.times) // the speed-up has changed
	}
	f.starts = f.started
	if s.more {
		f.starts++
		f.fresh = readyTurn{Key: s.at, Tie: s.next.Session}
	}
}

// takeStreamed creates the request of a ready turn. fresh reports whether it is a first turn.
func (f *Feed) takeStreamed(r readyTurn, fresh bool) (Arrival, error) {
	s := f.streamed
	in, at := &s.next, s.at
	if !fresh {
		f.ready.Pop()
		in, at = &s.later, r.Key
		place := s.waiting[r.Value]
		s.vacant = append(s.vacant, r.Value)
		if s.err = s.source.Later(place, in); s.err == nil {
			s.err = in.check(f.times.w, at)
		}
		if s.err != nil {
			return Arrival{}, s.err
		}
	}
	q := f.makeStreamed(in, at)
	if !f.flat {
		s.open.Set(int(q.ID), openTurn{true, in.Session, in.Next, in.NextDelay})
		f.inFlight++
	}
	if fresh {
		f.started++
		f.findFresh()
	}
	return Arrival{q, at}, nil
}

// makeStreamed creates a request and adds its prompt to the tree.
func (f *Feed) makeStreamed(in *Incoming, at sim.Time) *sim.Request {
	s, q := f.streamed, &f.requests
	r := q.allocStreamed(s)
	class, priority := in.Class, in.Priority
	if j := q.w.judge; j != nil {
		if rule := j.judgeOne(&classed{w: q.w, in: *in}); rule >= 0 {
			class = j.places[rule]
			if j.rules[rule].Ranked {
				priority = j.rules[rule].Priority
			}
		}
	}
	*r = sim.Request{
		ID: q.next, InputTokens: int(in.Input), OutputTokens: int(in.Output), Prompt: s.tree.Add(in.IDs, int(in.Input)),
		Session: in.Session, Turn: in.Turn, Line: in.Line, Priority: priority, Class: class, Arrived: at,
		Draws: sim.DrawsOf(in.Session, in.Turn),
	}
	q.next++
	return r
}

// endStreamed records that a request is no longer in flight. If the request completed, the next turn of its session
// becomes ready.
func (f *Feed) endStreamed(id sim.RequestID, now sim.Time, completed bool) error {
	s := f.streamed
	x := s.open.Get(int(id))
	if !x.known {
		return fmt.Errorf("request %d ended at %v ms, but it is not in flight", id, float64(now))
	}
	s.open.Set(int(id), openTurn{})
	f.inFlight--
	if !completed || x.next == 0 {
		return nil
	}
	place := int32(len(s.waiting))
	if k := len(s.vacant); k > 0 {
		place, s.vacant = s.vacant[k-1], s.vacant[:k-1]
		s.waiting[place] = x.next
	} else {
		s.waiting = append(s.waiting, x.next)
	}
	f.ready.Push(now+f.times.delayOf(x.delay), x.session, place)
	return nil
}

// allocStreamed returns memory for a request.
func (q *requests) allocStreamed(s *streamed) *sim.Request {
	if last := len(q.reclaimed) - 1; last >= 0 {
		r := q.reclaimed[last]
		q.reclaimed = q.reclaimed[:last]
		return r
	}
	r := new(sim.Request)
	s.all = append(s.all, r)
	return r
}

// Err returns the error of reading requests. Err returns nil for feeds that keep all requests.
func (f *Feed) Err() error {
	if f.streamed == nil {
		return nil
	}
	return f.streamed.err
}

// WantsSweep reports whether a call of ForgetPrompts is worthwhile. WantsSweep returns false for feeds that keep all
// requests.
func (f *Feed) WantsSweep() bool { return f.streamed != nil && f.streamed.tree.WantsSweep() }

// ForgetPrompts removes prompts from the tree of a feed that reads requests one by one. ForgetPrompts keeps the
// prompts of unfinished requests and the nodes that mark passes to need.
func (f *Feed) ForgetPrompts(mark func(need func(prompt.NodeID))) {
	s := f.streamed
	s.tree.Sweep(func(need func(prompt.NodeID)) {
		for _, r := range s.all {
			for _, n := range r.Prompt.Nodes {
				need(n)
			}
		}
		mark(need)
	})
}
