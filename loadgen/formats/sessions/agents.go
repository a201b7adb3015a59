package sessions

import (
	"fmt"
	"io"
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/mooncake"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// agentRows reads the format applied_compute_agentic, with an agent per line. The prompt of an agent grows by its
// answers and by the outputs of its tools. The format has no timestamps.
type agentRows struct {
	s       *formats.Stream
	scanner scan.Scanner
	w       *loadgen.Workload // agents read so far; only the latest agent if Next is used
	turn    int               // index in w of the next turn to return

	seen     scan.FieldSet // fields of the current record
	lengths  [3]uint64     // num_turns, input_prompt_length, final_assistant_response_length
	answers  []uint64
	outputs  []uint64 // tokens of tool outputs
	waits    []float64
	integers scan.Arena

	group  uint64   // group of the current session
	shared uint64   // number of leading blocks shared by the group
	ids    []uint64 // ids of its latest prompt
	unique uint64   // next id that no prompt has yet
	before float64  // delay of turns dropped since the latest kept turn, in ms
}

// OpenAgents opens a file in the format applied_compute_agentic.
func OpenAgents(s *formats.Stream) (formats.Reader, error) {
	if err := loadgen.CheckRatio(s.Options.SharedRatio); err != nil {
		return nil, err
	}
	if s.Options.Groups < 0 {
		return nil, fmt.Errorf("prefix groups are %d, must be >= 0", s.Options.Groups)
	}
	s.Shape.Raw, s.Chained, s.Untimed, s.Lines.Plain = true, true, true, true
	return &agentRows{s: s, scanner: scan.Scanner{Compat: s.Options.Compat}, unique: 1, w: new(loadgen.Workload)}, nil
}

// IsAgents reports whether a record is an agent. The first key that is a field of only one format decides between
// this format and Mooncake.
func IsAgents(o *scan.Object) bool {
	for i := range o.Members {
		key := o.Members[i].Key
		if agent := agentField(key) != 0; agent || mooncake.FieldOf(key) != 0 {
			return agent
		}
	}
	return false
}

func (a *agentRows) Next(r *formats.Record) error {
	for a.turn == len(a.w.Turns) {
		a.turn, a.w.Sessions, a.w.Turns = 0, a.w.Sessions[:0], a.w.Turns[:0]
		if err := a.readLine(); err != nil {
			return err
		}
	}
	t := &a.w.Turns[a.turn]
	a.turn++
	r.Reset(int(t.Line))
	r.Session = fmt.Appendf(nil, "%s%d", loadgen.AgenticPrefix, r.Line)
	r.Group = r.Session
	r.Input, r.Output = int(t.Input), int(t.Output)
	r.Delay, r.HasDelay = float64(t.Delay), t.Index > 0
	r.IDs = append(r.IDs, t.IDs...)
	return nil
}

// Workload returns the workload of all agents. The prompts of an agent share memory.
func (a *agentRows) Workload() (*loadgen.Workload, error) {
	a.w = &loadgen.Workload{Name: a.s.Name, TraceBlock: a.s.Block, Untimed: true, SessionPrefix: loadgen.AgenticPrefix}
	var err error
	for err == nil {
		err = a.readLine()
	}
	if err == io.EOF && len(a.w.Turns) == 0 {
		err = &loadgen.SyntaxError{Name: a.s.Name, Msg: "the file is empty, must be at least one agent"}
	}
	if err != io.EOF {
		return nil, err
	}
	a.w.Dropped = a.s.Dropped()
	return a.w, nil
}

// readLine adds the agent in the next line. If the line is invalid, nothing is added.
func (a *agentRows) readLine() error {
	line, err := a.s.Lines.Next()
	if err != nil {
		return err
	}
	a.scanner.Reset(line)
	sessions, turns, zeroes := len(a.w.Sessions), len(a.w.Turns), a.s.Zeroes
	if err = a.readAgent(); err == nil {
		err = a.addSession()
	}
	if err != nil {
		a.w.Sessions, a.w.Turns, a.s.Zeroes = a.w.Sessions[:sessions], a.w.Turns[:turns], zeroes
		return a.s.Lines.Errorf("%v", err)
	}
	return nil
}

// agentFields returns the names of the fields of a record, in the order of the bits of the field set.
func agentFields() [6]string {
	return [...]string{
		"num_turns", "input_prompt_length", "final_assistant_response_length",
		"assistant_response_length", "tool_call_output_length", "tool_call_latency",
	}
}

func agentField(key []byte) scan.FieldSet {
	for i, name := range agentFields() {
		if string(key) == name {
			return 1 << i
		}
	}
	return 0
}

// readAgent parses the line in the scanner.
func (a *agentRows) readAgent() error {
	a.seen = 0
	a.scanner.SkipSpace()
	if err := a.scanner.ReadFields(&a.seen, agentField, a.readValue); err != nil {
		return err
	}
	for i, name := range agentFields() {
		if a.seen&(1<<i) == 0 {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return a.scanner.CheckEnd()
}

func (a *agentRows) readValue(f scan.FieldSet) (err error) {
	i := f.Place()
	switch i {
	case 0, 1, 2:
		a.lengths[i], err = a.scanner.ReadInteger()
	case 3:
		a.answers, err = a.integerList(a.answers)
	case 4:
		a.outputs, err = a.integerList(a.outputs)
	case 5:
		a.waits, err = a.scanner.FloatList(a.waits[:0])
	}
	if err != nil {
		return scan.NameField(agentFields()[i], err)
	}
	return nil
}

func (a *agentRows) integerList(dst []uint64) ([]uint64, error) {
	a.integers.Clear()
	list, err := a.scanner.IDList(&a.integers)
	return append(dst[:0], list...), err
}

// addSession adds the session of the current record. The session has a turn for every tool call and a last turn.
func (a *agentRows) addSession() error {
	turns := a.lengths[0]
	if err := a.checkLists(turns); err != nil {
		return err
	}
	w := a.w
	w.Sessions = append(w.Sessions, loadgen.Session{First: int32(len(w.Turns)), Automatic: true})
	a.ids = nil // the ids of the previous session are still in use
	a.dealGroup()
	length, delay := a.lengths[1], 0.0
	for i := range int(turns) {
		if err := a.addTurn(length, a.answers[i], delay); err != nil {
			return err
		}
		length += a.answers[i] + a.outputs[i]
		delay = a.waits[i] * 1000.0
	}
	if err := a.addTurn(length, a.lengths[2], delay); err != nil {
		return err
	}
	if w.Sessions[len(w.Sessions)-1].Turns == 0 {
		w.Sessions = w.Sessions[:len(w.Sessions)-1]
		return nil
	}
	w.Turns[len(w.Turns)-1].Next = -1
	return nil
}

// keepsTurn applies ZeroOutput to a turn and reports whether it is kept. The delay of a dropped turn is added to the
// next turn.
func (a *agentRows) keepsTurn(output *uint64, delay *float64) (bool, error) {
	if s := &a.w.Sessions[len(a.w.Sessions)-1]; s.Turns > 0 {
		*delay += a.before
	} else {
		*delay = 0
	}
	a.before = 0
	if *output > 0 {
		return true, nil
	}
	n, keep, err := a.s.ReplaceZero()
	if *output = uint64(n); !keep && err == nil {
		a.before = *delay
	}
	return keep, err
}

func (a *agentRows) checkLists(turns uint64) error {
	for i, n := range []int{len(a.answers), len(a.outputs), len(a.waits)} {
		if uint64(n) != turns {
			return fmt.Errorf("%s has %d numbers, expected num_turns = %d", agentFields()[3+i], n, turns)
		}
	}
	if a.lengths[1] == 0 {
		return fmt.Errorf("input_prompt_length is 0, must be > 0")
	}
	length := a.lengths[1]
	for i := range int(turns) {
		if w := a.waits[i]; !(w >= 0) || math.IsInf(w*1000, 0) {
			return fmt.Errorf("tool_call_latency is %v at place %d, must be finite milliseconds >= 0", w, i+1)
		}
		for _, n := range []uint64{a.answers[i], a.outputs[i]} {
			if length += n; n > math.MaxInt32 || length > math.MaxInt32 {
				return fmt.Errorf("the prompt grows by %d tokens in turn %d, must be at most %d in all", n, i+1, math.MaxInt32)
			}
		}
	}
	return nil
}

// dealGroup assigns the current session to a group.
func (a *agentRows) dealGroup() {
	a.group, a.shared = 0, 0
	if a.s.Options.SharedRatio <= 0 || a.s.Options.Groups == 0 {
		return
	}
	a.group = uint64(a.s.Lines.Line-1) % uint64(a.s.Options.Groups)
	a.shared = loadgen.SharedBlocks(a.countBlocks(a.lengths[1]), a.s.Options.SharedRatio)
}

// countBlocks returns the number of blocks for length tokens.
func (a *agentRows) countBlocks(length uint64) uint64 {
	block := uint64(a.s.Block)
	return (length-1)/block + 1
}

// extendIDs adds ids until the prompt of the session has the given number of blocks.
func (a *agentRows) extendIDs(blocks uint64) {
	for b := uint64(len(a.ids)); b < blocks; b++ {
		if b < a.shared {
			a.ids = append(a.ids, loadgen.SharedID(a.group, b))
			continue
		}
		a.ids = append(a.ids, a.unique)
		a.unique++
	}
}

// maxAgentBlocks is the maximum number of blocks of a prompt. Without this limit, a short line could require
// unlimited memory.
const maxAgentBlocks = 1 << 24

// addTurn appends a turn with a prompt of length tokens. The prompts of a session are prefixes of the same id list.
func (a *agentRows) addTurn(length, output uint64, delay float64) error {
	if keep, err := a.keepsTurn(&output, &delay); !keep {
		return err
	}
	in, err := scan.TokenCount(length, "the prompt")
	if err != nil {
		return err
	}
	out, err := scan.TokenCount(output, "an answer's length")
	if err != nil {
		return err
	}
	blocks := a.countBlocks(length)
	if blocks > maxAgentBlocks {
		return fmt.Errorf("the prompt is %d blocks of %d tokens, must be at most %d", blocks, a.s.Block, maxAgentBlocks)
	}
	a.extendIDs(blocks)
	w := a.w
	s := &w.Sessions[len(w.Sessions)-1]
	w.Turns = append(w.Turns, loadgen.Turn{
		Session: int32(len(w.Sessions) - 1), Index: s.Turns, Next: int32(len(w.Turns) + 1), Line: int32(a.s.Lines.Line),
		Input: in, Output: out, IDs: a.ids[:blocks:blocks], Delay: sim.Time(delay),
	})
	s.Turns++
	return nil
}
