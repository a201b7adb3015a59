// Package loadgen defines workloads and determines when their requests arrive.
//
// A Workload has the contents of a trace file or of a synthetic workload: sessions of turns. A Feed returns the turns
// as requests, in open loop (at the times of the trace) or in closed loop (at most a number in flight).
//
// Package formats reads traces. Read workload.go, feed.go (with validate.go), session.go and synth.go.
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

// Workload is the input of a replay: sessions of turns.
//
// A Workload does not change after its creation, so that several replays can use it concurrently.
type Workload struct {
	Name       string    // name of the file, or of the workload, in errors
	TraceBlock int       // tokens per hash id; 0 if Synthetic
	Sessions   []Session // in order of first appearance
	Turns      []Turn    // in file order; turns of different sessions may be mixed
	// Source returns the requests if they are not kept in Sessions and Turns. A workload with a Source can be
	// replayed once and must be closed. If Source is nil, all requests are kept.
	Source Source
	// Dropped has the counts of dropped rows. With a Source, use CountDropped.
	Dropped Dropped
	// Priorities has the priorities of the turns. The lowest value is the most urgent. Priorities is nil if the trace
	// has no priorities.
	Priorities []int32
	// Classes has the names of the classes, DefaultClass first. ClassesOf has the index of the class of each turn.
	// Classes and ClassesOf are nil if there are no classes.
	Classes   []string
	ClassesOf []int32
	// Rules has the rules of the classes, by index in Classes. Rules is nil without rules.
	Rules []Class
	judge *judge // applies the rules to requests of a Source; nil without rules
	// Graph has the dependencies of turns if turns wait for more than the previous turn of their session. In this
	// case sessions have no delays. Without such turns Graph is nil.
	Graph *Graph
	// Rounds is the number of repetitions of the sessions, see Recycle. 0 means that they are not repeated.
	Rounds int
	// Synthetic reports that prompts share nothing. In this case turns have no ids.
	Synthetic bool
	// Renumbered reports that hash ids are numbered in file order, and have no meaning in other files.
	Renumbered bool
	// Untimed reports that the format has no arrival times. An untimed workload requires closed loop.
	Untimed bool
	// Sessional reports that the starts of sessions keep their offset: the first start is not shifted to 0.
	Sessional bool

	// SessionPrefix is the prefix of the names of sessions without ID. After RequestPrefix and AgenticPrefix follows
	// the line of the session's first turn, and after other prefixes the number of the session.
	SessionPrefix string

	trees *trees // nil: replays do not share them
}

// Dropped has the counts of rows of a trace that are not replayed.
type Dropped struct {
	ZeroOutput int // requests with 0 output tokens
	Other      int // rows that the format excludes, such as failed requests and requests to other models
	Bad        int // invalid rows that were skipped
}

// Rows returns the total number of dropped rows.
func (d Dropped) Rows() int { return d.ZeroOutput + d.Other + d.Bad }

// DroppedKind is a reason for dropping rows, with its count.
type DroppedKind struct {
	Key  string // key in reports
	Text string // description in the plural
	Rows int
}

// Kinds returns the reasons for which rows were dropped.
func (d Dropped) Kinds() []DroppedKind {
	all := []DroppedKind{
		{"dropped_zero_output_requests", "with 0 output tokens (--zero-output)", d.ZeroOutput},
		{"dropped_other_requests", "failed, or of another model", d.Other},
		{"dropped_bad_rows", "bad (--skip-bad)", d.Bad},
	}
	return slices.DeleteFunc(all, func(k DroppedKind) bool { return k.Rows == 0 })
}

// String describes the dropped rows. String returns "" if there are no dropped rows.
func (d Dropped) String() string {
	var parts []string
	for _, k := range d.Kinds() {
		parts = append(parts, fmt.Sprint(k.Rows, " ", k.Text))
	}
	return strings.Join(parts, ", ")
}

// CountDropped returns the counts of dropped rows. With a Source, they are complete only at its end.
func (w *Workload) CountDropped() Dropped {
	if w.Source != nil {
		return w.Source.Dropped()
	}
	return w.Dropped
}

// Session is a conversation. Each turn waits for the completion of the previous turn.
type Session struct {
	ID         string   // name in the trace; see Workload.SessionID for automatic names
	First      int32    // index of the first turn
	Turns      int32    // number of turns, at least 1
	Arrival    sim.Time // arrival of the first turn in the trace
	HasArrival bool
	Automatic  bool // the trace has no name for the session
}

// Turn is one request of a session.
type Turn struct {
	Session int32 // index of the session
	Index   int32 // index in the session, starting at 0
	Next    int32 // index of the next turn of the session in Turns; -1: none
	Line    int32 // line in the file, starting at 1; 0: none
	Input   int32 // prompt tokens
	Output  int32 // requested output tokens
	IDs     []uint64
	Delay   sim.Time // delay after the completion of the previous turn
}

// PriorityOf returns the priority of a turn. PriorityOf returns 0 if the trace has no priorities.
func (w *Workload) PriorityOf(turn int32) int32 {
	if w.Priorities == nil {
		return 0
	}
	return w.Priorities[turn]
}

// MultiTurn reports whether a session has two or more turns.
func (w *Workload) MultiTurn() bool {
	if w.Source != nil {
		return w.Source.MultiTurn()
	}
	return len(w.Turns) > len(w.Sessions)
}

// SessionID returns the name of session i. Without a name in the trace it returns a generated name such as
// request_<line>.
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

// Prefixes of generated session names.
const (
	RequestPrefix   = "request_"
	AgenticPrefix   = "applied_compute_agentic_session_"
	syntheticPrefix = "session_"
)

// Place returns the position of a turn for errors: the line in the trace, or the number of the turn.
func (w *Workload) Place(session, index int32) string {
	turn := w.Sessions[session].First
	for range index {
		turn = w.Turns[turn].Next
	}
	return w.PlaceOf(turn)
}

// PlaceOf is Place for the turn with an index in w.Turns.
func (w *Workload) PlaceOf(turn int32) string {
	t := &w.Turns[turn]
	if t.Line > 0 {
		return fmt.Sprintf("%s:%d", w.Name, t.Line)
	}
	return fmt.Sprintf("%s turn %d", w.SessionID(int(t.Session)), t.Index)
}

// manyTurns is the number of turns above which the garbage of reading a trace is collected immediately. The garbage
// of reading a trace is up to a quarter of the memory of a replay of sessions.
const manyTurns = 1 << 15

// Intern adds all prompts of w to t. Intern returns the prompts by turn.
func Intern(w *Workload, t *prompt.Tree) *prompt.List {
	if w.Synthetic {
		tokens := 0
		if len(w.Turns) > 0 {
			tokens = int(w.Turns[0].Input) // all turns are equal
		}
		return t.AddSynthetic(len(w.Turns), tokens)
	}
	prompts := internAll(w, t, 0, nil)
	w.collectGarbage()
	return prompts
}

// InternLast is Intern for a workload of which the hash ids are not used after the call. InternLast drops the ids of
// large workloads.
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

// collectGarbage runs a garbage collection if the workload has many turns.
func (w *Workload) collectGarbage() {
	if len(w.Turns) > manyTurns {
		runtime.GC()
	}
}

// internAll adds all prompts of w to t, followed by count additional prompts.
func internAll(w *Workload, t *prompt.Tree, count int, more func(i int) (ids []uint64, tokens int)) *prompt.List {
	return t.AddAll(len(w.Turns)+count, func(i int) ([]uint64, int) {
		if i >= len(w.Turns) {
			return more(i - len(w.Turns))
		}
		return w.Turns[i].IDs, int(w.Turns[i].Input)
	})
}

// InternMore adds all prompts of w to t, followed by count additional prompts. The returned list has this order. w
// must not be synthetic.
func InternMore(w *Workload, t *prompt.Tree, count int, more func(i int) (ids []uint64, tokens int)) *prompt.List {
	prompts := internAll(w, t, count, more)
	w.collectGarbage()
	return prompts
}

// SyntaxError is an error in a trace, with its line.
type SyntaxError struct {
	Name string
	Line int // starting at 1; 0: the error is not about a line
	Msg  string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Name + ": " + excerpt.Message(e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, excerpt.Message(e.Msg))
}

// errorAt returns a SyntaxError about a turn.
func (w *Workload) errorAt(turn int32, format string, args ...any) error {
	msg := excerpt.Sprintf(format, args...)
	t := &w.Turns[turn]
	if t.Line == 0 {
		msg = excerpt.Sprintf("%s, turn %d: %s", w.SessionID(int(t.Session)), t.Index, msg)
	}
	return &SyntaxError{Name: w.Name, Line: int(t.Line), Msg: msg}
}
