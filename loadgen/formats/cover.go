package formats

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// cover finds the block sizes that match the number of hash ids and the prompt length of all rows.
type cover struct {
	begun       bool   // add was called
	least, most uint64 // smallest and largest block size that match all rows, in tokens
	reading     bool   // the remaining rows are only read for least and most

	// Rows that do not match, and are replayed like in the reference.
	rows  int
	lost  uint64 // prompt tokens of these rows that are not replayed
	first string // error of the first of these rows
}

// add adds a row with n ids and the given number of prompt tokens. If spare is true, an incomplete last block may
// have no id. If more is true, any number of additional ids may follow.
func (c *cover) add(n, tokens uint64, spare, more bool) {
	if !c.begun {
		c.begun, c.least, c.most = true, 1, scan.MaxTokens
	}
	switch {
	case spare && tokens >= c.least*(n+1):
		c.least = tokens/(n+1) + 1
	case spare || tokens <= c.least*n:
	case n == 0:
		c.least = c.most + 1
	default:
		c.least = (tokens + n - 1) / n
	}
	switch {
	case more || n == 0 || n == 1 && tokens > 0 || tokens > c.most*(n-1):
	case tokens == 0:
		c.least = c.most + 1
	default:
		c.most = (tokens - 1) / (n - 1)
	}
}

// fitting returns the roundest block size that matches all rows, or 0 if no block size matches.
func (c *cover) fitting() uint64 {
	if c.least > c.most {
		return 0
	}
	most := min(c.most, 2*c.least-1) // this range contains a power of two
	for shift := bits.Len64(most); shift > 0; shift-- {
		if size := (c.least + 1<<shift - 1) >> shift << shift; size <= most {
			return size
		}
	}
	return c.least
}

// fitText describes the block size that matches all rows read so far.
func (s *Stream) fitText() string {
	switch size := s.cover.fitting(); {
	case size == 0:
		return "no block size fits all rows"
	case s.Shape.ownBlock:
		return fmt.Sprintf("blocks of %d fit all rows", size)
	default:
		return fmt.Sprintf("--trace-block-size %d fits all rows", size)
	}
}

// Misfit returns the block size that matches all rows, after all rows were read. Misfit returns "" if the current
// block size matches.
func (s *Stream) Misfit() string {
	if !s.cover.begun || s.cover.least <= uint64(s.Block) && uint64(s.Block) <= s.cover.most {
		return ""
	}
	return s.fitText()
}

// misfitText returns the error of a row with n ids and the given number of prompt tokens.
func (s *Stream) misfitText(n, tokens uint64, spare bool) string {
	full, rest := tokens/uint64(s.Block), tokens%uint64(s.Block)
	want := fmt.Sprint(full)
	switch {
	case rest > 0 && spare:
		want = fmt.Sprintf("%d or %d", full, full+1)
	case rest > 0:
		want = fmt.Sprint(full + 1)
	}
	return fmt.Sprintf("number of hash ids is %d for %d prompt tokens, must be %s with blocks of %d tokens", n, tokens, want, s.Block)
}

// UnknownError is the error for a file of unknown format that has rows with keys.
type UnknownError struct {
	Row     *loadgen.SyntaxError
	Keys    []string
	Columns string // suggested value of --columns; "": no suggestion
}

func (e *UnknownError) Error() string { return e.Row.Error() }
func (e *UnknownError) Unwrap() error { return e.Row }

// MisfitError is the error for a row with hash ids that do not match the length of its prompt.
type MisfitError struct{ row *loadgen.SyntaxError }

func (e *MisfitError) Error() string { return e.row.Error() }
func (e *MisfitError) Unwrap() error { return e.row }

// coverError returns the error for a row with n ids that do not match its prompt tokens. If reading stops at this
// row, it reads the remaining rows to find a matching block size.
func (s *Stream) coverError(r *Record, n, tokens uint64, spare bool) error {
	if s.cover.reading {
		return nil
	}
	line, text := r.Line, s.misfitText(n, tokens, spare)
	if s.Options.StopsAtBad() {
		s.readRest()
		text += "; " + s.fitText()
	}
	return &MisfitError{&loadgen.SyntaxError{Name: s.Name, Line: line, Msg: text}}
}

// readRest reads the remaining rows to find a matching block size.
func (s *Stream) readRest() {
	s.cover.reading = true
	var r Record
	for {
		r.Reset(0)
		err := s.rows.Next(&r)
		if err == nil && !s.Shape.Raw {
			s.countIDs(&r)
		}
		if err != nil && !isBadRow(err) {
			return
		}
	}
}

// takeLess records a row with n ids that is replayed like in the reference: the prompt has only the tokens in its
// ids.
func (s *Stream) takeLess(r *Record, n, tokens uint64) {
	c := &s.cover
	if c.rows++; c.rows == 1 {
		c.first = s.RowError(r, "%s", s.misfitText(n, tokens, false)).Error()
	}
	if held := n * uint64(s.Block); held < tokens {
		c.lost += tokens - held
	}
}

// WarnLess prints a warning about the rows of which tokens are dropped, after all rows were read.
func (s *Stream) WarnLess() {
	if c := &s.cover; c.rows > 0 {
		s.Warn(fmt.Sprintf("%s; %s; %d rows do not fit, and %d prompt tokens are dropped as in the reference", c.first, s.fitText(), c.rows, c.lost))
	}
}

// CheckWhole checks a row with n ids in a format with one id per block. CheckWhole returns an error if misfit is
// true, unless the reference is repeated. The reference drops the other tokens.
func (s *Stream) CheckWhole(r *Record, n, tokens uint64, misfit bool) error {
	s.cover.add(n, tokens, false, false)
	switch {
	case !misfit:
		return nil
	case s.Options.Compat:
		s.takeLess(r, n, tokens)
		return nil
	}
	return s.coverError(r, n, tokens, false)
}

// checkTimes returns an error for a time that a replay does not support.
func (s *Stream) checkTimes(r *Record) error {
	if s.Shape.Raw && s.Options.Compat {
		return nil
	}
	at := r.At
	if r.Stamped {
		at = r.When.MS
	}
	for _, t := range []struct {
		name  string
		ms    float64
		given bool
	}{{"arrival", at, r.HasAt}, {"delay", r.Delay, r.HasDelay}} {
		if !t.given || math.Abs(t.ms) <= sim.MaxTime {
			continue
		}
		if err := scan.BoundTime(t.ms, fmt.Sprint(t.ms, " ms")); err != nil {
			return s.RowError(r, "%s %v", t.name, err)
		}
	}
	return nil
}

// mostChecked is the maximum number of sessions of which the order of turns is checked, for a trace that is not kept.
const mostChecked = 1 << 18

// checkReplayed returns an error for a valid row that cannot be replayed. checkReplayed does nothing unless
// Options.Check is set.
func (s *Stream) checkReplayed(r *Record) error {
	if s.order == nil {
		return nil
	}
	early, negative := r.Negative()
	switch {
	case negative:
		return s.RowError(r, "arrival is %v ms, must be >= 0", early)
	case r.Input == 0 && len(r.IDs) == 0:
		return s.RowError(r, "input_length is 0 because hash_ids is empty, must be > 0")
	case r.Input == 0:
		return s.RowError(r, "input_length is 0, must be > 0")
	}
	_, err := s.order.Place(r)
	if s.order.beyond == 1 {
		s.order.beyond++
		s.Warn(fmt.Sprintf("%s: more than %d sessions: the order of turns is checked in the first %d", s.Name, mostChecked, mostChecked))
	}
	return err
}
