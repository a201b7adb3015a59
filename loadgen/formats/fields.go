package formats

import (
	"fmt"
	"math"
	"strconv"
)

// fields reads the members of an object by name. The first complaint stays in
// err, and what is read after it is 0.
type fields struct {
	object
	place string // put before names, such as "requests[4]."
	err   error
}

// openLine starts on an object that is a whole line.
func (f *fields) openLine(line []byte) error {
	f.place, f.err = "", nil
	return f.parseText(line)
}

// readRow reads the next line, an object, into r by fill. What fill or the fields
// complain of gets its place.
func (f *fields) readRow(l *lines, r *Record, fill func(r *Record)) error {
	line, err := l.next()
	if err != nil {
		return err
	}
	r.reset(l.line)
	if err = f.openLine(line); err == nil {
		fill(r)
		err = f.err
	}
	if err != nil {
		return l.errorf("%v", err)
	}
	return nil
}

// openMember starts on a member that is an object, known to be JSON.
func (f *fields) openMember(value []byte, place string) {
	f.place, f.err = place, nil
	f.reparseText(value)
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
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

func (f *fields) mismatch(key string, value []byte, want string) {
	f.complain("%s%s is %s, want %s", f.place, key, cutExcerpt(value), want)
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
		f.complain("%s%s is %s, which does not fit a float64; want a finite number", f.place, keys[0], cutExcerpt(v))
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
		f.complain("%s%s is %s, which does not fit a float64; want a finite number", f.place, key, cutExcerpt(v))
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
	from := len(dst)
	for i := 1; i < len(v)-1; {
		c := v[i]
		if c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '\r' {
			i++
			continue
		}
		start := i
		n := uint64(0)
		for ; v[i]-'0' <= 9; i++ {
			n = n*10 + uint64(v[i]-'0')
		}
		if end := v[i]; i == start || i-start > 19 || end != ',' && end != ']' && end != ' ' && end != '\n' && end != '\r' && end != '\t' {
			return f.slowID(key, v, start, dst, len(dst)-from)
		}
		dst = append(dst, n)
	}
	return dst, true
}

// slowID reads an id of 20 digits, or complains, and goes on with the list.
func (f *fields) slowID(key string, v []byte, start int, dst []uint64, place int) ([]uint64, bool) {
	parts, _ := splitList(v, nil)
	dst = dst[:len(dst)-place]
	for i, p := range parts {
		n, ok := wholeNumber(p)
		if !ok {
			f.complain("%s%s[%d] is %s, want 0 to %d", f.place, key, i, cutExcerpt(p), uint64(math.MaxUint64))
			return dst, false
		}
		dst = append(dst, n)
	}
	return dst, true
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
