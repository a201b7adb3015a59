package scan

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Fields reads the members of an object by name. Err is the first error. After an error, reads return 0.
type Fields struct {
	Object
	Line   int    // line in the file at which the object starts
	Place  string // prefix of names in messages, such as "requests[4]."
	Err    error
	Parent *Fields // enclosing object, which gets the error too; nil if there is none
}

// OpenLine parses a line that is an object.
func (f *Fields) OpenLine(line []byte) error {
	f.Place, f.Err = "", nil
	return f.ParseText(line)
}

// NextLine parses the next line and calls do. Errors get the position in the file.
func (f *Fields) NextLine(l *Lines, do func(f *Fields) error) error {
	line, err := l.Next()
	if err != nil {
		return err
	}
	f.Line = l.Line
	if err = f.OpenLine(line); err == nil {
		err = f.readBy(do)
	}
	if err == nil || IsFatal(err) {
		return err
	}
	return l.Errorf("%v", err)
}

// readBy calls do. readBy returns the error of do, or else Err.
func (f *Fields) readBy(do func(f *Fields) error) error {
	if err := do(f); err != nil {
		return err
	}
	return f.Err
}

// OpenMember returns the fields of value, which must be valid JSON. place is the name of the value. If value is not
// an object, it has no fields.
func (f *Fields) OpenMember(value []byte, place string) *Fields {
	sub := &Fields{Line: f.Line, Place: f.Place + place + ".", Parent: f}
	sub.ReparseText(value)
	return sub
}

// OpenSub returns the fields of the object with the given key. If it is missing, it has no fields.
func (f *Fields) OpenSub(key string) *Fields {
	v := f.Value(key)
	if v != nil && v[0] != '{' {
		f.Mismatch(key, v, "an object")
	}
	return f.OpenMember(v, key)
}

// Elements yields the elements of a list of objects.
func (f *Fields) Elements(key string) iter.Seq2[int, *Fields] {
	return func(yield func(int, *Fields) bool) {
		for i, v := range f.ReadList(key) {
			if !yield(i, f.OpenElement(key, i, v)) {
				return
			}
		}
	}
}

func (f *Fields) OpenElement(key string, i int, value []byte) *Fields {
	return f.OpenMember(value, fmt.Sprintf("%s[%d]", key, i))
}

// Value returns the value of a key or of one of its aliases. Value returns nil if the value is missing or null. Two
// members with these keys are an error.
func (f *Fields) Value(keys ...string) []byte {
	var value []byte
	seen := false
	for i := range f.Members {
		m := &f.Members[i]
		for _, key := range keys {
			if string(m.Key) != key {
				continue
			}
			if seen {
				f.Complain("%s%s is given twice, must be unique", f.Place, keys[0])
			}
			seen, value = true, notNull(m.Value)
		}
	}
	return value
}

func (f *Fields) Complain(format string, args ...any) {
	for err := excerpt.Errorf(format, args...); f != nil && f.Err == nil; f = f.Parent {
		f.Err = err
	}
}

func (f *Fields) Mismatch(key string, value []byte, want string) {
	f.Complain("%s%s is %s, must be %s", f.Place, key, excerpt.Cut(value), want)
}

func (f *Fields) Missing(key, want string) {
	f.Complain("%s%s is missing, must be %s", f.Place, key, want)
}

const WantCount = "an integer >= 0"

// ReadCount reads an integer from 0 to MaxTokens.
func (f *Fields) ReadCount(keys ...string) (n int, ok bool) {
	v := f.Value(keys...)
	if v == nil {
		return 0, false
	}
	u, err := WholeNumber(v)
	if !err {
		f.Mismatch(keys[0], v, WantCount)
		return 0, false
	}
	if u > MaxTokens {
		f.Mismatch(keys[0], v, "at most "+strconv.Itoa(MaxTokens))
		return 0, false
	}
	return int(u), true
}

// NeedCount is ReadCount for a required field.
func (f *Fields) NeedCount(keys ...string) int {
	n, ok := f.ReadCount(keys...)
	if !ok {
		f.Missing(keys[0], "a number of tokens")
	}
	return n
}

// ReadInteger reads an integer, which can be negative.
func (f *Fields) ReadInteger(key string) (int64, bool) {
	v := f.Value(key)
	if v == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		f.Mismatch(key, v, "an integer")
		return 0, false
	}
	return n, true
}

// ReadFloat reads a finite number.
func (f *Fields) ReadFloat(keys ...string) (float64, bool) {
	v := f.Value(keys...)
	if v == nil {
		return 0, false
	}
	x, ok := ParseNumber(v)
	if !ok && IsNumeric(v) {
		f.Complain("%s%s is %s, which does not fit a float64, must be a finite number", f.Place, keys[0], excerpt.Cut(v))
	} else if !ok {
		f.Mismatch(keys[0], v, "a number")
	}
	return x, ok
}

// ReadStamp reads a time in units of 10^scale ns.
func (f *Fields) ReadStamp(key string, scale int) (Stamp, bool) {
	v := f.Value(key)
	if v == nil {
		return Stamp{}, false
	}
	if !IsNumeric(v) {
		f.Mismatch(key, v, "a number")
		return Stamp{}, false
	}
	s, ok := DecimalStamp(v, scale)
	if !ok {
		f.Complain("%s%s is %s, which does not fit a float64, must be a finite number", f.Place, key, excerpt.Cut(v))
	}
	return s, ok
}

// NeedStamp is ReadStamp for a required field.
func (f *Fields) NeedStamp(key string, scale int) Stamp {
	s, ok := f.ReadStamp(key, scale)
	if !ok {
		f.Missing(key, "a time")
	}
	return s
}

// ReadText reads a string. ReadText returns nil if the field is missing.
func (f *Fields) ReadText(key string) []byte {
	v := f.Value(key)
	if v == nil {
		return nil
	}
	if v[0] != '"' {
		f.Mismatch(key, v, "a string")
		return nil
	}
	return UnquoteString(v)
}

// ReadName reads a string, or a number as text. ReadName returns nil if the field is missing.
func (f *Fields) ReadName(key string) []byte {
	v := f.Value(key)
	switch {
	case v == nil:
		return nil
	case v[0] == '"':
		return UnquoteString(v)
	case IsNumeric(v):
		return v
	}
	f.Mismatch(key, v, "a string or a number")
	return nil
}

// ReadIDs appends a list of integers to dst. ok is false if the field is missing.
func (f *Fields) ReadIDs(key string, dst []uint64) (list []uint64, ok bool) {
	v := f.Value(key)
	if v == nil {
		return dst, false
	}
	if v[0] != '[' {
		f.Mismatch(key, v, "a list of integers")
		return dst, false
	}
	var a Arena
	a.Reset(slices.Grow(dst, bytes.Count(v, []byte{','})+1))
	p := partsOf(v)
	for more, _ := p.OpenValue('[', ']'); more; more, _ = p.HasMore(']') {
		p.plainIDs(&a)
		p.SkipSpace()
		from := p.pos
		_ = p.skipValue() // always valid JSON
		n, ok := WholeNumber(v[from:p.pos])
		if !ok {
			f.Complain("%s%s[%d] is %s, must be 0 to %d", f.Place, key, len(a.List()), excerpt.Cut(v[from:p.pos]), uint64(math.MaxUint64))
			return dst, false
		}
		a.Add(n)
	}
	return a.List(), true
}

// NeedIDs is ReadIDs for a required field.
func (f *Fields) NeedIDs(key, want string, dst []uint64) []uint64 {
	list, ok := f.ReadIDs(key, dst)
	if !ok {
		f.Missing(key, want)
	}
	return list
}

// ReadList returns the elements of a list. ReadList returns nil if the field is missing.
func (f *Fields) ReadList(key string) [][]byte {
	v := f.Value(key)
	if v == nil {
		return nil
	}
	parts, ok := SplitList(v, [][]byte{})
	if !ok {
		f.Mismatch(key, v, "a list")
	}
	return parts
}

// WholeNumber parses an unsigned integer of 64 bits without decimal point and exponent.
func WholeNumber(v []byte) (uint64, bool) {
	if len(v) == 0 || len(v) > 20 || v[0]-'0' > 9 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range v {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// IsNumeric reports whether a JSON value is a number.
func IsNumeric(v []byte) bool { return len(v) > 0 && (v[0] == '-' || v[0]-'0' <= 9) }

// ParseNumber parses a finite number, correctly rounded.
func ParseNumber(v []byte) (float64, bool) {
	if !IsNumeric(v) {
		return 0, false
	}
	if len(v) < 16 {
		if n, ok := WholeNumber(v); ok {
			return float64(n), true
		}
	}
	x, err := strconv.ParseFloat(string(v), 64)
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
}

// MaxTokens is the maximum length of a prompt or an answer in tokens.
const MaxTokens = 1<<31 - 1
