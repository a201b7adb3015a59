package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/replay-llm/replay/loadgen"
)

// agentRows reads traces of agents with loadgen.ReadAgentic, some lines at a
// time.
type agentRows struct {
	s     *Stream
	text  bytes.Buffer
	lines []int // read, not parsed: their numbers
	ends  []int // where they end in text
	base  int   // the line before the first of text
	more  error // what comes after the lines: io.EOF, or an error

	w      *loadgen.Workload
	turn   int    // of w, to be given next
	failed error  // to be given after w
	unique uint64 // ids given away by batches before
}

const batchLines = 512

func openAgents(s *Stream) (rows, error) {
	s.shape.raw, s.Chained, s.Untimed = true, true, true
	return &agentRows{s: s}, nil
}

func (a *agentRows) next(r *Record) error {
	for a.w == nil || a.turn == len(a.w.Turns) {
		a.retire()
		if err := a.failed; err != nil {
			a.failed = nil
			return err
		}
		if err := a.read(); err != nil {
			return err
		}
		a.parse()
	}
	t := &a.w.Turns[a.turn]
	a.turn++
	r.reset(int(t.Line) + a.base)
	r.Session = fmt.Appendf(nil, "applied_compute_agentic_session_%d", r.Line)
	r.Group = r.Session
	r.Input, r.Output = int(t.Input), int(t.Output)
	r.Delay, r.HasDelay = float64(t.Delay), t.Index > 0
	for _, id := range t.IDs {
		if id < sharedIDs {
			id += a.unique
		}
		r.IDs = append(r.IDs, id)
	}
	return nil
}

// sharedIDs is where the ids begin that groups of agents share.
const sharedIDs = 0xA63E000000000000

// retire takes leave of a batch that was given.
func (a *agentRows) retire() {
	if a.w == nil {
		return
	}
	top := uint64(0)
	for i := range a.w.Turns {
		for _, id := range a.w.Turns[i].IDs {
			if id < sharedIDs {
				top = max(top, id)
			}
		}
	}
	a.unique += top
	a.w, a.turn = nil, 0
}

// read fills the batch.
func (a *agentRows) read() error {
	for len(a.lines) < batchLines && a.more == nil {
		line, err := a.s.lines.next()
		if err != nil {
			a.more = err
			break
		}
		a.keep(a.s.lines.line, line)
	}
	if len(a.lines) == 0 {
		err := a.more
		if err != io.EOF {
			a.more = nil
		}
		return err
	}
	return nil
}

// keep adds a line such that lines of text are those of the file, counted from
// a base that leaves every agent in its group.
func (a *agentRows) keep(number int, line []byte) {
	if len(a.lines) == 0 {
		groups := max(a.s.o.Groups, 1)
		a.base = (number - 1) / groups * groups
		a.text.Reset()
	}
	at := a.base
	if n := len(a.lines); n > 0 {
		at = a.lines[n-1]
	}
	for at++; at < number; at++ {
		a.text.WriteByte('\n')
	}
	a.text.Write(line)
	a.text.WriteByte('\n')
	a.lines, a.ends = append(a.lines, number), append(a.ends, a.text.Len())
}

// parse reads the batch up to its first bad line.
func (a *agentRows) parse() {
	w, err := a.agents(a.text.Bytes())
	var bad *loadgen.SyntaxError
	if !errors.As(err, &bad) {
		a.w, a.failed = w, err
		a.lines, a.ends = a.lines[:0], a.ends[:0]
		return
	}
	number, n := bad.Line+a.base, 0
	for n < len(a.lines)-1 && a.lines[n] < number {
		n++
	}
	a.failed = &loadgen.SyntaxError{Name: a.s.Name, Line: number, Msg: bad.Msg}
	start := 0
	if n > 0 {
		start = a.ends[n-1]
		a.w, _ = a.agents(a.text.Bytes()[:start]) // it was read once already
	}
	// What follows the bad line is another batch.
	rest, numbers, ends := bytes.Clone(a.text.Bytes()), append([]int(nil), a.lines[n+1:]...), append([]int(nil), a.ends[n:]...)
	base := a.base
	a.lines, a.ends = a.lines[:0], a.ends[:0]
	for i, number := range numbers {
		a.keep(number, bytes.TrimSpace(rest[ends[i]:ends[i+1]]))
	}
	if a.w != nil {
		a.w.Turns = rebased(a.w.Turns, base-a.base)
	}
}

// rebased counts lines from another base.
func rebased(turns []loadgen.Turn, by int) []loadgen.Turn {
	for i := range turns {
		turns[i].Line += int32(by)
	}
	return turns
}

func (a *agentRows) agents(text []byte) (*loadgen.Workload, error) {
	return loadgen.ReadAgentic(bytes.NewReader(text), a.s.Name, loadgen.AgenticOptions{
		ReadOptions: loadgen.ReadOptions{TraceBlock: a.s.Block, Compat: a.s.o.Compat},
		SharedRatio: a.s.o.SharedRatio, Groups: a.s.o.Groups,
	})
}
