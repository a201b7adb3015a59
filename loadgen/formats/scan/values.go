package scan

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/sim"
)

// ReadFields reads the next object. It calls read for each field that fieldOf knows, skips all other fields, and adds
// the known fields to seen. A known field must not appear twice.
func (s *Scanner) ReadFields(seen *FieldSet, fieldOf func(key []byte) FieldSet, read func(f FieldSet) error) error {
	more, err := s.OpenValue('{', '}')
	for more && err == nil {
		var key []byte
		if key, err = s.readKey(); err != nil {
			return err
		}
		switch f := fieldOf(key) &^ s.Ignored; {
		case f == 0:
			err = s.skipValue()
		case *seen&f != 0:
			return fmt.Errorf("%s is given twice", key)
		default:
			*seen |= f
			err = read(f)
		}
		if err != nil {
			return err
		}
		more, err = s.HasMore('}')
	}
	return err
}

// ReadInteger reads a whole number >= 0 without fraction and exponent.
func (s *Scanner) ReadInteger() (uint64, error) {
	var n uint64
	i := s.pos
	for ; i < len(s.data) && i < s.pos+19; i++ {
		c := s.data[i] - '0'
		if c > 9 {
			break
		}
		n = n*10 + uint64(c)
	}
	if i < len(s.data) && i > s.pos {
		// The end of nearly every integer.
		if c := s.data[i]; (c == ',' || c == ']' || c == '}' || c == ' ') && (s.data[s.pos] != '0' || i == s.pos+1) {
			s.pos = i
			return n, nil
		}
	}
	return s.integerSlowly()
}

// ReadPriority reads a whole number of either sign, of 32 bits.
func (s *Scanner) ReadPriority() (int32, error) {
	const want = "a whole number, -2147483648 to 2147483647"
	if c := s.Peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.MismatchOf(want)
	}
	from := s.pos
	if _, err := s.readNumber(); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(s.data[from:s.pos]), 10, 32)
	if err != nil {
		s.pos = from
		return 0, s.MismatchOf(want)
	}
	return int32(n), nil
}

func (s *Scanner) integerSlowly() (uint64, error) {
	const want = "a whole number >= 0"
	if c := s.Peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.MismatchOf(want)
	}
	d, err := s.readNumber()
	if err != nil {
		return 0, err
	}
	if !d.whole || d.Cut || d.Negative {
		return 0, &mismatchError{text: excerpt.Cut(d.text), want: want}
	}
	return d.Digits, nil
}

// readFloat reads any number.
func (s *Scanner) readFloat() (float64, error) {
	if c := s.Peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.MismatchOf("a number")
	}
	d, err := s.readNumber()
	if err != nil {
		return 0, err
	}
	return d.toFloat(s.Compat)
}

// mismatchError reports a valid value of a wrong type, or one that is out of bounds.
type mismatchError struct{ text, want, bound string }

func (e *mismatchError) Error() string {
	if e.bound != "" {
		return fmt.Sprintf("is %s, must be %s", e.text, e.bound)
	}
	return fmt.Sprintf("is %s, must be %s", e.text, e.want)
}

// MismatchOf reads the value at hand and complains about it.
func (s *Scanner) MismatchOf(want string) error {
	from := s.pos
	if err := s.skipValue(); err != nil {
		return err
	}
	return &mismatchError{text: excerpt.Cut(s.data[from:s.pos]), want: want}
}

// IDList reads a list of integers into a.
func (s *Scanner) IDList(a *Arena) ([]uint64, error) {
	a.Begin()
	if s.Peek() != '[' {
		return nil, s.MismatchOf("a list of whole numbers")
	}
	more, err := s.OpenValue('[', ']')
	for more && err == nil {
		s.plainIDs(a)
		s.SkipSpace()
		var id uint64
		if id, err = s.ReadInteger(); err != nil {
			break
		}
		a.Add(id)
		more, err = s.HasMore(']')
	}
	if err == nil {
		return a.List(), nil
	}
	if m := (*mismatchError)(nil); errors.As(err, &m) {
		return nil, &mismatchError{text: fmt.Sprintf("[…, %s, …] at place %d", m.text, len(a.List())+1), want: "whole numbers >= 0"}
	}
	return nil, err
}

// plainIDs reads the numbers of a list as nearly every list has them: up to 18
// digits, no zero in front, a comma and at most one blank after. It stops before
// the first that is not so, such as the last.
func (s *Scanner) plainIDs(a *Arena) {
	data, i := s.data, s.pos
	for {
		n, from := uint64(0), i
		for ; i < len(data); i++ {
			c := data[i] - '0'
			if c > 9 {
				break
			}
			n = n*10 + uint64(c)
		}
		digits := i - from
		if digits == 0 || digits > 18 || i+2 >= len(data) || data[i] != ',' || digits > 1 && data[from] == '0' {
			return
		}
		if i++; data[i] == ' ' {
			i++
		}
		a.Add(n)
		s.pos = i
	}
}

// FloatList reads a list of numbers onto dst.
func (s *Scanner) FloatList(dst []float64) ([]float64, error) {
	if s.Peek() != '[' {
		return nil, s.MismatchOf("a list of numbers")
	}
	more, err := s.OpenValue('[', ']')
	for more && err == nil {
		var f float64
		if f, err = s.readFloat(); err != nil {
			break
		}
		dst = append(dst, f)
		more, err = s.HasMore(']')
	}
	return dst, err
}

// TokenCount returns a length, if it is one that can be replayed.
func TokenCount(n uint64, name string) (int32, error) {
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("%s is %d, must be at most %d", name, n, math.MaxInt32)
	}
	return int32(n), nil
}

// Arena holds lists of hash ids, in pieces so that growing copies little.
type Arena struct {
	ids   []uint64 // the current piece; the list being built is its tail
	start int      // of that list
}

const (
	firstPiece = 1 << 10
	lastPiece  = 1 << 16
)

func (a *Arena) Begin() { a.start = len(a.ids) }

func (a *Arena) Add(id uint64) {
	if len(a.ids) == cap(a.ids) {
		a.grow()
	}
	a.ids = append(a.ids, id)
}

// grow moves the list being built to a new piece.
func (a *Arena) grow() {
	list := a.ids[a.start:]
	size := min(max(2*cap(a.ids), firstPiece), lastPiece)
	a.ids = append(make([]uint64, 0, max(size, 2*len(list))), list...)
	a.start = 0
}

// List is what was added since begin. Nothing appended to it can reach other lists.
func (a *Arena) List() []uint64 { return a.ids[a.start:len(a.ids):len(a.ids)] }

// Reset starts over in the memory of a list. The room behind its last list is free.
func (a *Arena) Reset(memory []uint64) {
	if last := a.ids[a.start:]; len(last) > 0 && cap(memory) > 0 && &memory[:1][0] == &last[0] {
		memory = last
	}
	a.ids, a.start = memory[:0], 0
}

// FieldSet is a field of a row that is read as it comes, or a set of them: a bit each.
type FieldSet uint16

// Place is the number of the field's bit.
func (f FieldSet) Place() int { return bits.TrailingZeros16(uint16(f)) }

// NameField puts the name of the field before a complaint about its value.
func NameField(name string, err error) error {
	if m := (*mismatchError)(nil); errors.As(err, &m) {
		return fmt.Errorf("%s %w", name, err)
	}
	return err // names a byte of the line
}

// BoundTime refuses a time in ms that is not on the clock of a replay, and is written so.
func BoundTime(ms float64, text string) error {
	switch most := strconv.FormatFloat(sim.MaxTime, 'f', -1, 64); {
	case ms > sim.MaxTime:
		return &mismatchError{text: text, bound: "at most " + most + " ms"}
	case ms < -sim.MaxTime:
		return &mismatchError{text: text, bound: "at least -" + most + " ms"}
	}
	return nil
}

// ReadTime reads a number of ms, which is on the clock of a replay unless it is read as the reference reads it.
func (s *Scanner) ReadTime() (float64, error) {
	from := s.pos
	ms, err := s.readFloat()
	if err == nil && !s.Compat && math.Abs(ms) > sim.MaxTime {
		err = BoundTime(ms, excerpt.Cut(s.data[from:s.pos]))
	}
	return ms, err
}

// Clear forgets all lists: their memory is used again.
func (a *Arena) Clear() { a.ids = a.ids[:0] }
