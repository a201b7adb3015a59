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

// ReadFields reads the next object. ReadFields calls read for each field that fieldOf knows, and adds the field to
// seen. ReadFields skips all other members. A known field must not occur twice.
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

// ReadInteger reads an integer >= 0 without fraction and exponent.
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
		// Fast path for most integers.
		if c := s.data[i]; (c == ',' || c == ']' || c == '}' || c == ' ') && (s.data[s.pos] != '0' || i == s.pos+1) {
			s.pos = i
			return n, nil
		}
	}
	return s.integerSlowly()
}

// ReadPriority reads an integer of 32 bits, which can be negative.
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

// readFloat reads a number.
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

// mismatchError is the error for a valid JSON value with a wrong type or out of range.
type mismatchError struct{ text, want, bound string }

func (e *mismatchError) Error() string {
	if e.bound != "" {
		return fmt.Sprintf("is %s, must be %s", e.text, e.bound)
	}
	return fmt.Sprintf("is %s, must be %s", e.text, e.want)
}

// MismatchOf reads the next value and returns an error about it.
func (s *Scanner) MismatchOf(want string) error {
	from := s.pos
	if err := s.skipValue(); err != nil {
		return err
	}
	return &mismatchError{text: excerpt.Cut(s.data[from:s.pos]), want: want}
}

// IDList reads a list of integers into the arena.
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

// plainIDs reads integers in a list in the most frequent notation: up to 18 digits, no leading zero, then a comma and
// at most one blank. plainIDs stops before an integer with another notation, and before the last integer.
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

// FloatList appends a list of numbers to dst.
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

// TokenCount converts a number of tokens. Numbers above the maximum length are an error.
func TokenCount(n uint64, name string) (int32, error) {
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("%s is %d, must be at most %d", name, n, math.MaxInt32)
	}
	return int32(n), nil
}

// Arena stores lists of ids in large pieces, so that few ids are copied when it grows.
type Arena struct {
	ids   []uint64 // current piece; it ends with the current list
	start int      // start of the current list
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

// grow moves the current list to a new piece.
func (a *Arena) grow() {
	list := a.ids[a.start:]
	size := min(max(2*cap(a.ids), firstPiece), lastPiece)
	a.ids = append(make([]uint64, 0, max(size, 2*len(list))), list...)
	a.start = 0
}

// List returns the ids added since Begin. Appending to the result does not change other lists.
func (a *Arena) List() []uint64 { return a.ids[a.start:len(a.ids):len(a.ids)] }

// Reset starts again in the memory of a list. If the list is the latest list of the arena, only the memory of the
// list is used again.
func (a *Arena) Reset(memory []uint64) {
	if last := a.ids[a.start:]; len(last) > 0 && cap(memory) > 0 && &memory[:1][0] == &last[0] {
		memory = last
	}
	a.ids, a.start = memory[:0], 0
}

// FieldSet is a set of fields of a row, with a bit per field.
type FieldSet uint16

// Place returns the index of the lowest bit.
func (f FieldSet) Place() int { return bits.TrailingZeros16(uint16(f)) }

// NameField adds the name of the field to an error about its value.
func NameField(name string, err error) error {
	if m := (*mismatchError)(nil); errors.As(err, &m) {
		return fmt.Errorf("%s %w", name, err)
	}
	return err // already contains the position in the line
}

// BoundTime returns an error if a time in ms is outside of the range of the simulated clock. text is the time in the
// file.
func BoundTime(ms float64, text string) error {
	switch most := strconv.FormatFloat(sim.MaxTime, 'f', -1, 64); {
	case ms > sim.MaxTime:
		return &mismatchError{text: text, bound: "at most " + most + " ms"}
	case ms < -sim.MaxTime:
		return &mismatchError{text: text, bound: "at least -" + most + " ms"}
	}
	return nil
}

// ReadTime reads a time in ms. Except in Compat mode, it must be in the range of the simulated clock.
func (s *Scanner) ReadTime() (float64, error) {
	from := s.pos
	ms, err := s.readFloat()
	if err == nil && !s.Compat && math.Abs(ms) > sim.MaxTime {
		err = BoundTime(ms, excerpt.Cut(s.data[from:s.pos]))
	}
	return ms, err
}

// Clear removes all lists. The memory of the lists is used again.
func (a *Arena) Clear() { a.ids = a.ids[:0] }
