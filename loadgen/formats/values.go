package formats

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
)

// readFields reads the object at hand: by read the fields that fieldOf knows, each
// once, over the others it goes. Those that are there are added to seen.
func (s *scanner) readFields(seen *rowField, fieldOf func(key []byte) rowField, read func(f rowField) error) error {
	more, err := s.openValue('{', '}')
	for more && err == nil {
		var key []byte
		if key, err = s.readKey(); err != nil {
			return err
		}
		switch f := fieldOf(key) &^ s.ignored; {
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
		more, err = s.hasMore('}')
	}
	return err
}

// readInteger reads a whole number >= 0 without fraction and exponent.
func (s *scanner) readInteger() (uint64, error) {
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

// readPriority reads a whole number of either sign, of 32 bits.
func (s *scanner) readPriority() (int32, error) {
	const want = "a whole number, -2147483648 to 2147483647"
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.mismatchOf(want)
	}
	from := s.pos
	if _, err := s.readNumber(); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(s.data[from:s.pos]), 10, 32)
	if err != nil {
		s.pos = from
		return 0, s.mismatchOf(want)
	}
	return int32(n), nil
}

func (s *scanner) integerSlowly() (uint64, error) {
	const want = "a whole number >= 0"
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.mismatchOf(want)
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
func (s *scanner) readFloat() (float64, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.mismatchOf("a number")
	}
	d, err := s.readNumber()
	if err != nil {
		return 0, err
	}
	return d.toFloat(s.compat)
}

// mismatchError reports a valid value of a wrong type, or one that is out of bounds.
type mismatchError struct{ text, want, bound string }

func (e *mismatchError) Error() string {
	if e.bound != "" {
		return fmt.Sprintf("is %s, must be %s", e.text, e.bound)
	}
	return fmt.Sprintf("is %s, want %s", e.text, e.want)
}

// mismatchOf reads the value at hand and complains about it.
func (s *scanner) mismatchOf(want string) error {
	from := s.pos
	if err := s.skipValue(); err != nil {
		return err
	}
	return &mismatchError{text: excerpt.Cut(s.data[from:s.pos]), want: want}
}

// idList reads a list of integers into a.
func (s *scanner) idList(a *arena) ([]uint64, error) {
	a.begin()
	if s.peek() != '[' {
		return nil, s.mismatchOf("a list of whole numbers")
	}
	more, err := s.openValue('[', ']')
	for more && err == nil {
		s.plainIDs(a)
		s.skipSpace()
		var id uint64
		if id, err = s.readInteger(); err != nil {
			break
		}
		a.add(id)
		more, err = s.hasMore(']')
	}
	if err == nil {
		return a.list(), nil
	}
	if m := (*mismatchError)(nil); errors.As(err, &m) {
		return nil, &mismatchError{text: fmt.Sprintf("[…, %s, …] at place %d", m.text, len(a.list())+1), want: "whole numbers >= 0"}
	}
	return nil, err
}

// plainIDs reads the numbers of a list as nearly every list has them: up to 18
// digits, no zero in front, a comma and at most one blank after. It stops before
// the first that is not so, such as the last.
func (s *scanner) plainIDs(a *arena) {
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
		a.add(n)
		s.pos = i
	}
}

// floatList reads a list of numbers onto dst.
func (s *scanner) floatList(dst []float64) ([]float64, error) {
	if s.peek() != '[' {
		return nil, s.mismatchOf("a list of numbers")
	}
	more, err := s.openValue('[', ']')
	for more && err == nil {
		var f float64
		if f, err = s.readFloat(); err != nil {
			break
		}
		dst = append(dst, f)
		more, err = s.hasMore(']')
	}
	return dst, err
}

// tokenCount returns a length, if it is one that can be replayed.
func tokenCount(n uint64, name string) (int32, error) {
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("%s is %d, want at most %d", name, n, math.MaxInt32)
	}
	return int32(n), nil
}

// arena holds lists of hash ids, in pieces so that growing copies little.
type arena struct {
	ids   []uint64 // the current piece; the list being built is its tail
	start int      // of that list
}

const (
	firstPiece = 1 << 10
	lastPiece  = 1 << 16
)

func (a *arena) begin() { a.start = len(a.ids) }

func (a *arena) add(id uint64) {
	if len(a.ids) == cap(a.ids) {
		a.grow()
	}
	a.ids = append(a.ids, id)
}

// grow moves the list being built to a new piece.
func (a *arena) grow() {
	list := a.ids[a.start:]
	size := min(max(2*cap(a.ids), firstPiece), lastPiece)
	a.ids = append(make([]uint64, 0, max(size, 2*len(list))), list...)
	a.start = 0
}

// list is what was added since begin. Nothing appended to it can reach others.
func (a *arena) list() []uint64 { return a.ids[a.start:len(a.ids):len(a.ids)] }

// reset starts over in the memory of a list. Behind the last of its own lists is room that is nobody's.
func (a *arena) reset(memory []uint64) {
	if last := a.ids[a.start:]; len(last) > 0 && cap(memory) > 0 && &memory[:1][0] == &last[0] {
		memory = last
	}
	a.ids, a.start = memory[:0], 0
}
