// Package loadgen makes workloads and decides when their requests arrive.
//
// A Workload is what a trace file or a synthetic recipe holds: sessions of
// turns. A Feed hands the turns out as requests, in open loop (by the times of
// the trace) or in closed loop (at most a number in flight).
//
// Traces are read by package formats. Read workload.go, feed.go (with
// validate.go), session.go and synth.go.
package loadgen

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

//go:generate go run ../tools/tracegen ../testdata/traces

// Workload is what is to be replayed: sessions of turns.
//
// Nothing in it changes once it is made, so that one workload can be replayed
// many times at once.
type Workload struct {
	Name       string    // the file, or what stands for it in messages
	TraceBlock int       // tokens per hash id; 0 when Synthetic
	Sessions   []Session // in order of first appearance
	Turns      []Turn    // in file order; the turns of a session need not be adjacent
	// Source gives the requests instead of Sessions and Turns, where they are not kept: such a workload is replayed
	// once, and is to be closed. Nil: they are kept.
	Source Source
	// Dropped counts the rows of the trace that are no requests here; of a Source, see CountDropped.
	Dropped Dropped
	// Priorities are those of the turns, the least the most urgent; nil if the trace
	// gives none.
	Priorities []int32
	// Classes are the names of the classes of requests, DefaultClass first, and ClassesOf those of
	// the turns, by their place in it; both nil if there are none.
	Classes   []string
	ClassesOf []int32
	// Rules are the rules of the classes, by their place in Classes; nil without rules.
	Rules []Class
	judge *judge // of the requests of a Source; nil without rules
	// Graph has the dependencies of turns, if they are more than the turn before of their session,
	// which has no delays then; nil: it is not.
	Graph *Graph
	// Rounds is how often the sessions are there, see Recycle; 0: once.
	Rounds int
	// Synthetic reports that no two prompts share anything; turns have no ids then.
	Synthetic bool
	// Renumbered reports that hash ids count up as they come in this file, and mean nothing elsewhere.
	Renumbered bool
	// Untimed reports that the format knows no arrivals, so that only closed loop
	// can replay it.
	Untimed bool
	// Sessional reports that the file or recipe has sessions with starts that
	// are not to be shifted to 0 (session synthetic).
	Sessional bool

	// SessionPrefix begins the names of sessions without ID. Of RequestPrefix and
	// AgenticPrefix the line of the session's first turn follows, of later turns its
	// number.
	SessionPrefix string
}

// Dropped counts the rows of a trace that are not replayed.
type Dropped struct {
	ZeroOutput int // requests for 0 answer tokens
	Other      int // what the format leaves out, such as requests that failed, and requests to other models
	Bad        int // bad rows that are skipped on demand
}

// Rows is the number of all of them.
func (d Dropped) Rows() int { return d.ZeroOutput + d.Other + d.Bad }

// DroppedKind is a reason for which rows are dropped.
type DroppedKind struct {
	Key  string // in reports
	Text string // for people, in the plural
	Rows int
}

// Kinds are the reasons for which there are dropped rows.
func (d Dropped) Kinds() []DroppedKind {
	all := []DroppedKind{
		{"dropped_zero_output_requests", "with 0 output tokens (--zero-output)", d.ZeroOutput},
		{"dropped_other_requests", "failed, or of another model", d.Other},
		{"dropped_bad_rows", "bad (--skip-bad)", d.Bad},
	}
	return slices.DeleteFunc(all, func(k DroppedKind) bool { return k.Rows == 0 })
}

// String describes the dropped rows; "" without any.
func (d Dropped) String() string {
	var parts []string
	for _, k := range d.Kinds() {
		parts = append(parts, fmt.Sprint(k.Rows, " ", k.Text))
	}
	return strings.Join(parts, ", ")
}

// CountDropped counts the rows of the trace that are no requests of w. Where w has a Source, all are known only at its end.
func (w *Workload) CountDropped() Dropped {
	if w.Source != nil {
		return w.Source.Dropped()
	}
	return w.Dropped
}

// Session is a conversation: turns of which each waits for the one before.
type Session struct {
	ID         string   // as the trace has it; see Workload.SessionID for automatic ones
	First      int32    // index of the first turn
	Turns      int32    // number of turns, at least 1
	Arrival    sim.Time // of the first turn, as the trace has it
	HasArrival bool
	Automatic  bool // the trace gives no ID
}

// Turn is one request of a session.
type Turn struct {
	Session int32 // index of the session
	Index   int32 // place in the session, from 0
	Next    int32 // index of the session's next turn, -1 after the last
	Line    int32 // in the file, from 1; 0 when there is none
	Input   int32 // prompt tokens
	Output  int32 // answer tokens asked for
	IDs     []uint64
	Delay   sim.Time // after the previous turn's completion
}

// PriorityOf returns the priority of a turn, 0 if the trace gives none.
func (w *Workload) PriorityOf(turn int32) int32 {
	if w.Priorities == nil {
		return 0
	}
	return w.Priorities[turn]
}

// MultiTurn reports whether some session has two turns or more.
func (w *Workload) MultiTurn() bool {
	if w.Source != nil {
		return w.Source.MultiTurn()
	}
	return len(w.Turns) > len(w.Sessions)
}

// SessionID is the name of session i, made up as request_<line> where the trace
// gives none.
func (w *Workload) SessionID(i int) string {
	s := &w.Sessions[i]
	if !s.Automatic {
		return s.ID
	}
	if w.SessionPrefix == RequestPrefix || w.SessionPrefix == AgenticPrefix {
		return w.SessionPrefix + strconv.Itoa(int(w.Turns[s.First].Line))
	}
	return w.SessionPrefix + strconv.Itoa(i)
}

// Prefixes of the names of sessions to which a file gives none.
const (
	RequestPrefix   = "request_"
	AgenticPrefix   = "applied_compute_agentic_session_"
	syntheticPrefix = "session_"
)

// Place returns the place of a turn of a session: the line of the trace, or the number of the turn if there is none.
func (w *Workload) Place(session, index int32) string {
	turn := w.Sessions[session].First
	for range index {
		turn = w.Turns[turn].Next
	}
	return w.PlaceOf(turn)
}

// PlaceOf is Place of the turn with that index in w.Turns.
func (w *Workload) PlaceOf(turn int32) string {
	t := &w.Turns[turn]
	if t.Line > 0 {
		return fmt.Sprintf("%s:%d", w.Name, t.Line)
	}
	return fmt.Sprintf("%s turn %d", w.SessionID(int(t.Session)), t.Index)
}

// manyTurns is the number of turns above which the garbage of reading and joining, a quarter of the memory of a replay
// of sessions, is collected separately.
const manyTurns = 1 << 15

// Intern adds all prompts of w to t and returns them by turn.
func Intern(w *Workload, t *prompt.Tree) *prompt.List {
	if w.Synthetic {
		tokens := 0
		if len(w.Turns) > 0 {
			tokens = int(w.Turns[0].Input) // all are alike
		}
		return t.AddSynthetic(len(w.Turns), tokens)
	}
	prompts := internAll(w, t, 0, nil)
	w.collectGarbage()
	return prompts
}

// InternLast is Intern of a workload of which nothing but this tree has a use for the hash ids. Those of many turns are gone after it.
func InternLast(w *Workload, t *prompt.Tree) *prompt.List {
	if w.Synthetic || len(w.Turns) <= manyTurns {
		return Intern(w, t)
	}
	prompts := internAll(w, t, 0, nil)
	for i := range w.Turns {
		w.Turns[i].IDs = nil
	}
	w.collectGarbage()
	return prompts
}

// collectGarbage collects what reading and joining many turns have left.
func (w *Workload) collectGarbage() {
	if len(w.Turns) > manyTurns {
		runtime.GC()
	}
}

// internAll adds all prompts of w, and count more, to t.
func internAll(w *Workload, t *prompt.Tree, count int, more func(i int) (ids []uint64, tokens int)) *prompt.List {
	return t.AddAll(len(w.Turns)+count, func(i int) ([]uint64, int) {
		if i >= len(w.Turns) {
			return more(i - len(w.Turns))
		}
		return w.Turns[i].IDs, int(w.Turns[i].Input)
	})
}

// InternMore adds all prompts of w, which is not synthetic, to t, and count more, which come behind them in the
// list that it returns.
func InternMore(w *Workload, t *prompt.Tree, count int, more func(i int) (ids []uint64, tokens int)) *prompt.List {
	prompts := internAll(w, t, count, more)
	w.collectGarbage()
	return prompts
}

// SyntaxError reports what makes a trace unusable, with its place.
type SyntaxError struct {
	Name string
	Line int // from 1; 0 when it is not about a line
	Msg  string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Name + ": " + excerpt.Message(e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, excerpt.Message(e.Msg))
}

// errorAt is a SyntaxError about the given turn.
func (w *Workload) errorAt(turn int32, format string, args ...any) error {
	msg := excerpt.Sprintf(format, args...)
	t := &w.Turns[turn]
	if t.Line == 0 {
		msg = excerpt.Sprintf("%s, turn %d: %s", w.SessionID(int(t.Session)), t.Index, msg)
	}
	return &SyntaxError{Name: w.Name, Line: int(t.Line), Msg: msg}
}
