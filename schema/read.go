package schema

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/decimal"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// acceptType returns the JSON text of a key if it has the type kind, see isType. With Compat, other types are
// ignored. Without Compat, other types are an error with the text want.
func (d *Decl) acceptType(key string, kind byte, want string) (string, bool) {
	text := d.values[key]
	if text == nil || !d.OK() || (d.strict && string(text) == "null") {
		return "", false
	}
	if !isType(text, kind) {
		if !d.Compat || d.strict {
			d.Fail(key, excerpt.CutLine(text), want)
		}
		return "", false
	}
	return string(text), true
}

// isType reports whether text has a type: string ('"'), boolean ('t'), number ('0') or integer from 0 to 2^64-1
// ('1').
func isType(text json.RawMessage, kind byte) bool {
	s := string(text)
	switch kind {
	case '"':
		return s[0] == '"'
	case 't':
		return s == "true" || s == "false"
	case '0':
		return s[0] == '-' || ('0' <= s[0] && s[0] <= '9')
	}
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil || s == "-0"
}

// setPreset sets a field to the default of its row.
func setPreset[T any](dst *T, r *Row) {
	if r.Value != nil {
		*dst = r.Value.(T)
	}
}

// Bool declares a boolean.
func (d *Decl) Bool(dst *bool, r Row) {
	d.list(&r, Bool)
	setPreset(dst, &r)
	if text, ok := d.acceptType(r.Key, 't', "true or false"); ok {
		*dst = text == "true"
	}
}

// String declares a string.
func (d *Decl) String(dst *string, r Row) {
	d.list(&r, Path)
	setPreset(dst, &r)
	if text, ok := d.acceptType(r.Key, '"', "a string"); ok {
		if err := json.Unmarshal([]byte(text), dst); err != nil {
			d.Fail(r.Key, excerpt.CutLine(text), "a string")
		}
	}
}

// File declares the path of a file. Null counts as absent, and other types are refused even with Compat, like in the
// reference.
func (d *Decl) File(dst *string, r Row) {
	strict := d.strict
	d.strict = true
	d.String(dst, r)
	d.strict = strict
}

// Name declares a name from the list of the row and returns it, or "" if it is absent.
func (d *Decl) Name(r Row) string {
	d.list(&r, Name)
	if !d.Has(r.Key) {
		return ""
	}
	var s string
	want := quoteNames(r.Names)
	text, ok := d.acceptType(r.Key, '"', want)
	if !ok {
		return ""
	}
	if err := json.Unmarshal([]byte(text), &s); err == nil && slices.Contains(r.Names, s) {
		return s
	}
	d.Fail(r.Key, excerpt.CutLine(text), want)
	return ""
}

func quoteNames(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return strconv.Quote(names[0])
	}
	return `"` + strings.Join(names[:last], `", "`) + fmt.Sprintf(`" or %q`, names[last])
}

// Size declares an integer of at least 0 and reports whether it is given. Values above 2^62 are reduced to 2^62, so
// that sums do not overflow.
func (d *Decl) Size(dst *int, r Row) bool {
	d.list(&r, Int)
	setPreset(dst, &r)
	return d.readSize(dst, r.Key)
}

func (d *Decl) readSize(dst *int, key string) bool {
	text, ok := d.acceptType(key, '1', "an integer from 0 to 2^64-1")
	if ok {
		*dst = toInt(text, false)
	}
	return ok
}

// toInt returns the integer in text, which has type '1'. With cut, toInt returns the low 32 bits.
func toInt(text string, cut bool) int {
	n, _ := strconv.ParseUint(strings.TrimPrefix(text, "-"), 10, 64)
	if cut {
		n = uint64(uint32(n))
	}
	return int(min(n, 1<<62))
}

// Count declares an integer of at least 1.
func (d *Decl) Count(dst *int, r Row) {
	d.list(&r, Int)
	setPreset(dst, &r)
	d.readCount(dst, r.Key)
}

func (d *Decl) readCount(dst *int, key string) {
	if d.readSize(dst, key) && *dst < 1 {
		d.Fail(key, strconv.Itoa(*dst), "at least 1")
	}
}

// CountTo declares an integer from 1 to most.
func (d *Decl) CountTo(dst *int, most int, r Row) {
	if d.Count(dst, r); *dst > most {
		d.Fail(r.Key, strconv.Itoa(*dst), fmt.Sprintf("at most %d", most))
	}
}

// Limit declares an integer of at least 1, or null, which means no limit and is stored as 0.
func (d *Decl) Limit(dst *int, r Row) {
	d.list(&r, Limit)
	setPreset(dst, &r)
	if d.Raw(r.Key) == "null" {
		*dst = 0
		return
	}
	d.readCount(dst, r.Key)
}

// Ranks declares an integer of at least 1. With Compat only the low 32 bits of the number count, like in the
// reference.
func (d *Decl) Ranks(dst *int, r Row) {
	d.list(&r, Int)
	setPreset(dst, &r)
	text, ok := d.acceptType(r.Key, '1', "an integer of at least 1")
	if !ok {
		return
	}
	if *dst = toInt(text, d.Compat); *dst < 1 {
		d.Fail(r.Key, text, "at least 1")
	}
}

// Number declares a number and reports whether it is given.
func (d *Decl) Number(dst *float64, r Row) bool {
	d.list(&r, Real)
	setPreset(dst, &r)
	text, ok := d.acceptType(r.Key, '0', "a number")
	if !ok {
		return false
	}
	f, ok := parseNumber(text, d.Compat)
	if !ok {
		d.Fail(r.Key, excerpt.CutLine(text), "a number that a float64 can hold")
		return false
	}
	*dst = f
	return true
}

// NumberIn declares a number for which isRight returns true; want describes such numbers.
func (d *Decl) NumberIn(dst *float64, isRight func(float64) bool, want string, r Row) {
	if d.Number(dst, r) && !isRight(*dst) {
		d.Fail(r.Key, d.Raw(r.Key), want)
	}
}

// Ratio declares a number of at least 0.
func (d *Decl) Ratio(dst *float64, r Row) {
	d.NumberIn(dst, func(f float64) bool { return !(f < 0) }, "at least 0", r)
}

// Port declares a port. With Compat only the low 16 bits of the number count, like in the reference.
func (d *Decl) Port(dst *uint16, r Row) {
	var n int
	if !d.Size(&n, r) {
		return
	}
	if n > math.MaxUint16 && !d.Compat {
		d.Fail(r.Key, strconv.Itoa(n), "at most 65535")
	}
	*dst = uint16(n)
}

// Any declares a value of any type and returns its JSON text, or "" if it is absent.
func (d *Decl) Any(r Row) string {
	d.list(&r, Object)
	return d.Raw(r.Key)
}

// Other declares a second flag for a key.
func (d *Decl) Other(kind Kind, r Row) { d.list(&r, kind) }

// Numbers returns the value of a key as a list of 1 to most numbers from 0 to 1. A single number is a list of one.
func (d *Decl) Numbers(key, want string, most int) []float64 {
	list := make([]float64, 1)
	text := d.values[key]
	err := json.Unmarshal(text, &list[0])
	if err != nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) == 0 || len(list) > most || slices.ContainsFunc(list, func(x float64) bool { return x < 0 || x > 1 }) {
		d.Fail(key, excerpt.CutLine(text), want)
		return nil
	}
	return list
}

// Members declares an object, and also its members if the object is given.
func (d *Decl) Members(r Row, declare func(*Decl)) {
	if m := d.open(&r); m != nil && (m.values != nil || d.listing) {
		declare(m)
	}
}

// Group declares an object and its members, which have defaults if the object is absent.
func (d *Decl) Group(r Row, declare func(*Decl)) {
	if m := d.open(&r); m != nil {
		declare(m)
	}
}

// open returns a Decl for the members of an object, or nil after an error. The Decl has no values if the object is
// absent.
func (d *Decl) open(r *Row) *Decl {
	d.list(r, Object)
	if d.err != nil || d.listing && d.rows == nil { // Keys lists only the keys of the object itself
		return nil
	}
	m := &Decl{Compat: d.Compat, state: d.state, prefix: d.prefix + r.Key + ".", place: d.place + r.Key + ".", strict: true, own: d.own, only: d.only}
	if !d.Given(r.Key) {
		return m
	}
	m.asked = make([]string, 0, 64)
	var err error
	if m.values, err = ReadObject(d.values[r.Key]); err != nil {
		d.Fail(r.Key, excerpt.CutLine(d.values[r.Key]), "an object or null")
		return nil
	}
	return m
}

// parseNumber converts a JSON number that fits no integer. With compat parseNumber repeats the steps of the
// reference, which formats the number again and then parses that text with separate roundings.
func parseNumber(text string, compat bool) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || !compat:
		return f, err == nil
	case strings.ContainsAny(text, ".eE"):
		text = writeFloat(f)
	case text == "-0":
		text = "0"
	}
	return decimal.Parse(text)
}

// writeFloat returns the shortest digits that parse as f. The notation is positional from 1e-4 up to 1e16, and has an
// exponent outside this range.
func writeFloat(f float64) string {
	text := strconv.FormatFloat(f, 'e', -1, 64)
	_, exponent, _ := strings.Cut(text, "e")
	if x, _ := strconv.Atoi(exponent); x < -4 || x >= 16 {
		return text
	}
	text = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
