package loadgen

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Arrival is a request that arrives at the cluster.
type Arrival struct {
	Request *sim.Request
	At      sim.Time // scheduled time in trace mode; time of Take in concurrency mode
}

// Mode determines when requests arrive.
type Mode uint8

const (
	// Trace lets requests arrive at the times of the trace (open loop).
	Trace Mode = iota
	// Concurrency ignores the times of the trace and keeps a number of requests in flight (closed loop).
	Concurrency
)

func (m Mode) String() string {
	switch m {
	case Trace:
		return "trace"
	case Concurrency:
		return "concurrency"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Admission determines how requests are admitted to the cluster.
type Admission struct {
	Mode Mode
	// MaxInFlight is the maximum number of requests in flight in concurrency mode, at least 1. Trace mode ignores
	// MaxInFlight.
	MaxInFlight int
	// Speedup divides all times in trace mode. Speedup must be finite and > 0. Concurrency mode ignores Speedup.
	Speedup float64
	// Stop is the time from which no request arrives, or 0. Requests that arrived earlier continue.
	Stop sim.Time
	// Disaggregated reports that prefill and decode workers are separate. In this case multi-turn and closed-loop
	// workloads are not checked: a missing timestamp is 0, and prompts may be empty.
	Disaggregated bool
}

// NewFeed returns the feed for w. prompts has the prompts of w.Turns. If prompts is nil, SetPrompts must be called
// later.
func NewFeed(w *Workload, prompts *prompt.List, a Admission) (*Feed, error) {
	checkPrompts(w, prompts)
	if err := a.check(w); err != nil {
		return nil, err
	}
	times := newTimes(w, a)
	if err := checkWorkload(w, a, times); err != nil {
		return nil, err
	}
	return newFeed(requests{w: w, prompts: prompts}, times, a, w.Rounds == 0 && a.Stop == 0 && (w.Synthetic || a.Mode == Trace && !w.MultiTurn())), nil
}

func checkPrompts(w *Workload, prompts *prompt.List) {
	if prompts != nil && prompts.Len() != len(w.Turns) {
		panic(fmt.Sprintf("new feed: %d prompts for %d turns", prompts.Len(), len(w.Turns)))
	}
}

// SetPrompts sets the prompts of a feed that was created without prompts. SetPrompts does not change requests that
// were taken before.
func (f *Feed) SetPrompts(prompts *prompt.List) {
	checkPrompts(f.requests.w, prompts)
	f.requests.prompts = prompts
}

// FillPrompt sets the prompt of a request of an Independent feed that was taken before SetPrompts.
func (f *Feed) FillPrompt(r *sim.Request) {
	r.Prompt = f.requests.prompts.At(int(f.requests.w.Sessions[r.Session].First))
}

func (a Admission) check(w *Workload) error {
	switch a.Mode {
	case Trace:
		if w.Untimed {
			return &SyntaxError{Name: w.Name, Msg: "the format has no timestamps: only concurrency mode can replay it"}
		}
		if !(a.Speedup > 0) || math.IsInf(a.Speedup, 0) {
			return fmt.Errorf("arrival speed-up ratio is %v, must be a finite number > 0", a.Speedup)
		}
	case Concurrency:
		if a.MaxInFlight < 1 {
			return fmt.Errorf("requests in flight are %d, must be at least 1", a.MaxInFlight)
		}
	default:
		return fmt.Errorf("admission mode is %v, must be trace or concurrency", a.Mode)
	}
	return nil
}

// times converts the times of a trace to simulated times.
type times struct {
	w       *Workload
	closed  bool     // concurrency mode: all sessions start at 0, and delays are not scaled
	origin  sim.Time // time of the trace that is converted to 0
	speedup sim.Time // current speed-up
	first   sim.Time // initial speed-up
	bends   []bend   // changes of the speed-up
}

func newTimes(w *Workload, a Admission) times {
	t := times{w: w, closed: a.Mode == Concurrency, speedup: 1, first: 1}
	if t.closed {
		return t
	}
	t.speedup = sim.Time(a.Speedup)
	t.first = t.speedup
	if w.Sessional {
		return t
	}
	first := true
	for i := range w.Sessions {
		s := &w.Sessions[i]
		if s.HasArrival && (first || s.Arrival < t.origin) {
			t.origin, first = s.Arrival, false
		}
	}
	return t
}

// startOf returns the time at which session i is ready for its first turn.
func (t *times) startOf(i int32) sim.Time {
	s := &t.w.Sessions[i]
	if t.closed || !s.HasArrival {
		return 0
	}
	return t.scale(s.Arrival)
}

// scale converts a time of the trace to simulated time.
func (t *times) scale(arrival sim.Time) sim.Time {
	at := (arrival - t.origin) / t.first
	if len(t.bends) > 0 {
		at = t.bendTime(at)
	}
	return at
}

// delayBefore returns the delay from the completion of the previous turn to the given turn.
func (t *times) delayBefore(turn int32) sim.Time {
	return t.delayOf(t.w.Turns[turn].Delay)
}

// delayOf converts a delay of the trace to simulated time.
func (t *times) delayOf(d sim.Time) sim.Time {
	if t.closed {
		return d
	}
	return d / t.speedup
}

// requests creates the requests of a feed, in order of arrival.
//
// requests keeps no references to the created requests. The memory of a request is reused after Reclaim.
type requests struct {
	w         *Workload
	prompts   *prompt.List // nil: SetPrompts sets them later
	next      sim.RequestID
	free      []sim.Request  // memory for new requests
	reclaimed []*sim.Request // memory of reclaimed requests
}

// requestChunk is the maximum number of requests that are allocated at once.
const requestChunk = 512

func (q *requests) makeRequest(turn int32, arrives sim.Time) *sim.Request {
	r := q.allocRequest()
	t := &q.w.Turns[turn]
	*r = sim.Request{
		ID: q.next, InputTokens: int(t.Input), OutputTokens: int(t.Output),
		Session: t.Session, Turn: t.Index, Line: t.Line, Priority: q.w.PriorityOf(turn), Class: q.w.ClassOf(turn), Arrived: arrives,
		Draws: sim.DrawsOf(t.Session, t.Index),
	}
	if q.prompts != nil {
		r.Prompt = q.prompts.At(int(turn))
	}
	q.next++
	return r
}

// allocRequest returns memory for a request.
func (q *requests) allocRequest() *sim.Request {
	if last := len(q.reclaimed) - 1; last >= 0 {
		r := q.reclaimed[last]
		q.reclaimed = q.reclaimed[:last]
		return r
	}
	if len(q.free) == 0 {
		q.free = make([]sim.Request, min(len(q.w.Turns)-int(q.next), requestChunk))
	}
	r := &q.free[0]
	q.free = q.free[1:]
	return r
}

func (q *requests) reclaimRequest(r *sim.Request) {
	if invariant.Enabled {
		*r = sim.Request{ID: -1, InputTokens: -1, OutputTokens: -1, Session: -1, Turn: -1, Line: -1}
	}
	r.Prompt = prompt.Prompt{}
	q.reclaimed = append(q.reclaimed, r)
}
