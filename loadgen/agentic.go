package loadgen

import (
	"fmt"
	"io"
	"math"

	"github.com/replay-llm/replay/sim"
)

// AgenticOptions says how to read a trace of agents.
type AgenticOptions struct {
	ReadOptions
	// SharedRatio is the part of a first prompt's blocks that all agents of a
	// group share, 0 to 1.
	SharedRatio float64
	// Groups is the number of groups the agents are dealt to in turn; with 0
	// nothing is shared.
	Groups int
}

func (o *AgenticOptions) check() error {
	if err := o.ReadOptions.check(); err != nil {
		return err
	}
	if err := checkRatio(o.SharedRatio); err != nil {
		return err
	}
	if o.Groups < 0 {
		return fmt.Errorf("prefix groups are %d, want >= 0", o.Groups)
	}
	return nil
}

func checkRatio(r float64) error {
	if !(r >= 0 && r <= 1) {
		return fmt.Errorf("shared prefix ratio is %v, want 0 to 1", r)
	}
	return nil
}

// ReadAgentic reads a trace in the applied_compute_agentic format: one agent
// per line, whose prompt grows by its answers and what its tools return. It has
// no timestamps.
func ReadAgentic(r io.Reader, name string, o AgenticOptions) (*Workload, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &agentic{
		lines:   newLineReader(r, name, o.ReadOptions),
		scanner: scanner{compat: o.Compat},
		options: o,
		unique:  1,
		w:       &Workload{Name: name, TraceBlock: o.TraceBlock, Untimed: true, sessionPrefix: agenticPrefix},
	}
	for {
		line, err := a.lines.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		a.scanner.reset(line)
		err = a.record()
		if err == nil {
			err = a.expand()
		}
		if err != nil {
			return nil, a.lines.errorf("%v", err)
		}
	}
	if len(a.w.Turns) == 0 {
		return nil, &SyntaxError{Name: name, Msg: "the file is empty, want at least one agent"}
	}
	return a.w, nil
}

// agentic is the state of reading a file of agents.
type agentic struct {
	lines   *lineReader
	scanner scanner
	options AgenticOptions
	w       *Workload

	seen     agenticField // of the record at hand
	lengths  [3]uint64    // num_turns, input_prompt_length, final_assistant_response_length
	answers  []uint64
	outputs  []uint64 // of tools
	waits    []float64
	integers arena

	group  uint64   // of the session at hand
	shared uint64   // its first blocks that the group shares
	ids    []uint64 // of its last prompt
	unique uint64   // the next id that nobody shares
}

type agenticField uint8

const (
	fieldTurns agenticField = 1 << iota
	fieldPrompt
	fieldFinal
	fieldAnswers
	fieldToolOutput
	fieldToolLatency
)

func agenticKey(key []byte) agenticField {
	for f := fieldTurns; f <= fieldToolLatency; f <<= 1 {
		if string(key) == f.String() {
			return f
		}
	}
	return 0
}

func (f agenticField) String() string {
	switch f {
	case fieldTurns:
		return "num_turns"
	case fieldPrompt:
		return "input_prompt_length"
	case fieldFinal:
		return "final_assistant_response_length"
	case fieldAnswers:
		return "assistant_response_length"
	case fieldToolOutput:
		return "tool_call_output_length"
	case fieldToolLatency:
		return "tool_call_latency"
	}
	return fmt.Sprintf("field %d", uint8(f))
}

// record reads the line in the scanner.
func (a *agentic) record() error {
	a.seen = 0
	s := &a.scanner
	s.space()
	more, err := s.open('{', '}')
	for more && err == nil {
		var key []byte
		if key, err = s.key(); err != nil {
			return err
		}
		f := agenticKey(key)
		if f == 0 {
			err = s.skip()
		} else if a.seen&f != 0 {
			return fmt.Errorf("%s is given twice", key)
		} else {
			err = a.value(f)
		}
		if err != nil {
			return err
		}
		more, err = s.more('}')
	}
	if err != nil {
		return err
	}
	for f := fieldTurns; f <= fieldToolLatency; f <<= 1 {
		if a.seen&f == 0 {
			return fmt.Errorf("%v is missing", f)
		}
	}
	return s.end()
}

func (a *agentic) value(f agenticField) (err error) {
	a.seen |= f
	s := &a.scanner
	switch f {
	case fieldTurns:
		a.lengths[0], err = s.integer()
	case fieldPrompt:
		a.lengths[1], err = s.integer()
	case fieldFinal:
		a.lengths[2], err = s.integer()
	case fieldAnswers:
		a.answers, err = a.integerList(a.answers)
	case fieldToolOutput:
		a.outputs, err = a.integerList(a.outputs)
	case fieldToolLatency:
		a.waits, err = s.floatList(a.waits[:0])
	}
	return about(f, err)
}

func (a *agentic) integerList(dst []uint64) ([]uint64, error) {
	a.integers.ids = a.integers.ids[:0]
	list, err := a.scanner.idList(&a.integers)
	return append(dst[:0], list...), err
}

// expand adds the session of the record: a turn for every tool call and a final
// one.
func (a *agentic) expand() error {
	turns := a.lengths[0]
	if err := a.check(turns); err != nil {
		return err
	}
	w := a.w
	w.Sessions = append(w.Sessions, Session{First: int32(len(w.Turns)), Automatic: true})
	a.ids = nil // the turns of the last session keep theirs
	a.deal()
	length, delay := a.lengths[1], 0.0
	for i := range int(turns) {
		if err := a.add(length, a.answers[i], delay); err != nil {
			return err
		}
		length += a.answers[i] + a.outputs[i]
		delay = a.waits[i] * 1000.0
	}
	err := a.add(length, a.lengths[2], delay)
	w.Turns[len(w.Turns)-1].Next = -1
	return err
}

func (a *agentic) check(turns uint64) error {
	if n := len(a.answers); uint64(n) != turns {
		return fmt.Errorf("assistant_response_length has %d numbers, want num_turns = %d", n, turns)
	}
	if n := len(a.outputs); uint64(n) != turns {
		return fmt.Errorf("tool_call_output_length has %d numbers, want num_turns = %d", n, turns)
	}
	if n := len(a.waits); uint64(n) != turns {
		return fmt.Errorf("tool_call_latency has %d numbers, want num_turns = %d", n, turns)
	}
	if a.lengths[1] == 0 {
		return fmt.Errorf("input_prompt_length is 0, want > 0")
	}
	length := a.lengths[1]
	for i := range int(turns) {
		if w := a.waits[i]; !(w >= 0) || math.IsInf(w*1000, 0) {
			return fmt.Errorf("tool_call_latency is %v at place %d, want finite milliseconds >= 0", w, i+1)
		}
		for _, n := range []uint64{a.answers[i], a.outputs[i]} {
			if length += n; n > math.MaxInt32 || length > math.MaxInt32 {
				return fmt.Errorf("the prompt grows by %d tokens in turn %d, want at most %d in all", n, i+1, math.MaxInt32)
			}
		}
	}
	return nil
}

// deal gives the session at hand its group.
func (a *agentic) deal() {
	a.group, a.shared = 0, 0
	if a.options.SharedRatio <= 0 || a.options.Groups == 0 {
		return
	}
	a.group = uint64(a.lines.line-1) % uint64(a.options.Groups)
	a.shared = sharedBlocks(a.blocks(a.lengths[1]), a.options.SharedRatio)
}

// sharedBlocks is the part of blocks that a group shares.
func sharedBlocks(blocks uint64, ratio float64) uint64 {
	return min(uint64(math.Round(float64(blocks)*ratio)), blocks)
}

// blocks is how many blocks hold length tokens.
func (a *agentic) blocks(length uint64) uint64 {
	block := uint64(a.options.TraceBlock)
	return (length-1)/block + 1
}

// extend gives the session's prompt an id for each of its blocks.
func (a *agentic) extend(blocks uint64) {
	for b := uint64(len(a.ids)); b < blocks; b++ {
		if b < a.shared {
			a.ids = append(a.ids, sharedID(a.group, b))
			continue
		}
		a.ids = append(a.ids, a.unique)
		a.unique++
	}
}

// sharedID is the hash id of block b of a prefix group.
func sharedID(group, b uint64) uint64 { return 0xA63E000000000000 | group<<32 | b }

// maxAgentBlocks bounds the blocks of one agent's prompt, since a short line can
// ask for any number of them.
const maxAgentBlocks = 1 << 24

// add appends a turn whose prompt is the session's last one grown to length.
// Prompts of a session are beginnings of one list.
func (a *agentic) add(length, output uint64, delay float64) error {
	in, err := tokens(length, "the prompt")
	if err != nil {
		return err
	}
	out, err := tokens(output, "an answer's length")
	if err != nil {
		return err
	}
	blocks := a.blocks(length)
	if blocks > maxAgentBlocks {
		return fmt.Errorf("the prompt is %d blocks of %d tokens, want at most %d", blocks, a.options.TraceBlock, maxAgentBlocks)
	}
	a.extend(blocks)
	w := a.w
	s := &w.Sessions[len(w.Sessions)-1]
	w.Turns = append(w.Turns, Turn{
		Session: int32(len(w.Sessions) - 1), Index: s.Turns, Next: int32(len(w.Turns) + 1), Line: int32(a.lines.line),
		Input: in, Output: out, IDs: a.ids[:blocks:blocks], Delay: sim.Time(delay),
	})
	s.Turns++
	return nil
}
