package formats

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
)

// fields reads the members of an object by name. The first complaint stays in
// err, and what is read after it is 0.
type fields struct {
	object
	line   int    // of the file, at which the object begins
	place  string // put before names, such as "requests[4]."
	err    error
	parent *fields // has the object as a member, and its complaint, too; nil: none
}

// openLine starts on an object that is a whole line.
func (f *fields) openLine(line []byte) error {
	f.place, f.err = "", nil
	return f.parseText(line)
}

// nextLine reads the next line, an object, by do. What do or the fields complain of
// gets its place.
func (f *fields) nextLine(l *lines, do func(f *fields) error) error {
	line, err := l.next()
	if err != nil {
		return err
	}
	f.line = l.line
	if err = f.openLine(line); err == nil {
		err = f.readBy(do)
	}
	if _, fatal := err.(*fatalError); err == nil || fatal {
		return err
	}
	return l.errorf("%v", err)
}

// readBy returns what do complains of, or the fields.
func (f *fields) readBy(do func(f *fields) error) error {
	if err := do(f); err != nil {
		return err
	}
	return f.err
}

// openMember returns the fields of value, known to be JSON, which is a member of f
// in the given place; there are none when it is no object.
func (f *fields) openMember(value []byte, place string) *fields {
	sub := &fields{line: f.line, place: f.place + place + ".", parent: f}
	sub.reparseText(value)
	return sub
}

// openSub returns the fields of a member that is an object; there are none when it
// is not there.
func (f *fields) openSub(key string) *fields {
	v := f.value(key)
	if v != nil && v[0] != '{' {
		f.mismatch(key, v, "an object")
	}
	return f.openMember(v, key)
}

// elements yields the elements of a list of objects.
func (f *fields) elements(key string) iter.Seq2[int, *fields] {
	return func(yield func(int, *fields) bool) {
		for i, v := range f.readList(key) {
			if !yield(i, f.openElement(key, i, v)) {
				return
			}
		}
	}
}

func (f *fields) openElement(key string, i int, value []byte) *fields {
	return f.openMember(value, fmt.Sprintf("%s[%d]", key, i))
}

// value is that of key, or of its alias; nil: absent or null. A key that is
// there twice is an error, and so is a key with its alias.
func (f *fields) value(keys ...string) []byte {
	var value []byte
	seen := false
	for i := range f.members {
		m := &f.members[i]
		for _, key := range keys {
			if string(m.key) != key {
				continue
			}
			if seen {
				f.complain("%s%s is given twice, want it once", f.place, keys[0])
			}
			seen, value = true, notNull(m.value)
		}
	}
	return value
}

func (f *fields) complain(format string, args ...any) {
	for err := excerpt.Errorf(format, args...); f != nil && f.err == nil; f = f.parent {
		f.err = err
	}
}

func (f *fields) mismatch(key string, value []byte, want string) {
	f.complain("%s%s is %s, want %s", f.place, key, excerpt.Cut(value), want)
}

func (f *fields) missing(key, want string) {
	f.complain("%s%s is missing, want %s", f.place, key, want)
}

const wantCount = "an integer >= 0"

// readCount is a whole number from 0 to the most tokens.
func (f *fields) readCount(keys ...string) (n int, ok bool) {
	v := f.value(keys...)
	if v == nil {
		return 0, false
	}
	u, err := wholeNumber(v)
	if !err {
		f.mismatch(keys[0], v, wantCount)
		return 0, false
	}
	if u > maxTokens {
		f.mismatch(keys[0], v, "at most "+strconv.Itoa(maxTokens))
		return 0, false
	}
	return int(u), true
}

// needCount is count of what has to be there.
func (f *fields) needCount(keys ...string) int {
	n, ok := f.readCount(keys...)
	if !ok {
		f.missing(keys[0], "a number of tokens")
	}
	return n
}

// readInteger is a whole number of either sign.
func (f *fields) readInteger(key string) (int64, bool) {
	v := f.value(key)
	if v == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		f.mismatch(key, v, "an integer")
		return 0, false
	}
	return n, true
}

// readFloat is any finite number.
func (f *fields) readFloat(keys ...string) (float64, bool) {
	v := f.value(keys...)
	if v == nil {
		return 0, false
	}
	x, ok := parseNumber(v)
	if !ok && isNumeric(v) {
		f.complain("%s%s is %s, which does not fit a float64; want a finite number", f.place, keys[0], excerpt.Cut(v))
	} else if !ok {
		f.mismatch(keys[0], v, "a number")
	}
	return x, ok
}

// readStamp is an instant in units of 10^scale ns.
func (f *fields) readStamp(key string, scale int) (stamp, bool) {
	v := f.value(key)
	if v == nil {
		return stamp{}, false
	}
	if !isNumeric(v) {
		f.mismatch(key, v, "a number")
		return stamp{}, false
	}
	s, ok := decimalStamp(v, scale)
	if !ok {
		f.complain("%s%s is %s, which does not fit a float64; want a finite number", f.place, key, excerpt.Cut(v))
	}
	return s, ok
}

// needStamp is stamp of what has to be there.
func (f *fields) needStamp(key string, scale int) stamp {
	s, ok := f.readStamp(key, scale)
	if !ok {
		f.missing(key, "a time")
	}
	return s
}

// readText is a string; nil: absent.
func (f *fields) readText(key string) []byte {
	v := f.value(key)
	if v == nil {
		return nil
	}
	if v[0] != '"' {
		f.mismatch(key, v, "a string")
		return nil
	}
	return unquoteString(v)
}

// readName is a string or a number as text; nil: absent.
func (f *fields) readName(key string) []byte {
	v := f.value(key)
	switch {
	case v == nil:
		return nil
	case v[0] == '"':
		return unquoteString(v)
	case isNumeric(v):
		return v
	}
	f.mismatch(key, v, "a string or a number")
	return nil
}

// readIDs appends a list of whole numbers to dst; ok: it is there.
func (f *fields) readIDs(key string, dst []uint64) (list []uint64, ok bool) {
	v := f.value(key)
	if v == nil {
		return dst, false
	}
	if v[0] != '[' {
		f.mismatch(key, v, "a list of integers")
		return dst, false
	}
	var a arena
	a.reset(slices.Grow(dst, bytes.Count(v, []byte{','})+1))
	p := partsOf(v)
	for more, _ := p.openValue('[', ']'); more; more, _ = p.hasMore(']') {
		p.plainIDs(&a)
		p.skipSpace()
		from := p.pos
		_ = p.skipValue() // it is JSON
		n, ok := wholeNumber(v[from:p.pos])
		if !ok {
			f.complain("%s%s[%d] is %s, want 0 to %d", f.place, key, len(a.list()), excerpt.Cut(v[from:p.pos]), uint64(math.MaxUint64))
			return dst, false
		}
		a.add(n)
	}
	return a.list(), true
}

// needIDs is ids of what has to be there.
func (f *fields) needIDs(key, want string, dst []uint64) []uint64 {
	list, ok := f.readIDs(key, dst)
	if !ok {
		f.missing(key, want)
	}
	return list
}

// readList is the elements of a list; nil: absent.
func (f *fields) readList(key string) [][]byte {
	v := f.value(key)
	if v == nil {
		return nil
	}
	parts, ok := splitList(v, [][]byte{})
	if !ok {
		f.mismatch(key, v, "a list")
	}
	return parts
}

// wholeNumber reads digits without sign, point and exponent that fit 64 bits.
func wholeNumber(v []byte) (uint64, bool) {
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

func isNumeric(v []byte) bool { return len(v) > 0 && (v[0] == '-' || v[0]-'0' <= 9) }

// parseNumber reads a finite number, correctly rounded.
func parseNumber(v []byte) (float64, bool) {
	if !isNumeric(v) {
		return 0, false
	}
	if len(v) < 16 {
		if n, ok := wholeNumber(v); ok {
			return float64(n), true
		}
	}
	x, err := strconv.ParseFloat(string(v), 64)
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
}
