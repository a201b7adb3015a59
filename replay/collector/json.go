package collector

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/stable"
)

// Field is one entry of a report file.
type Field struct {
	Key   string
	value any // of one of the types of Of
}

// Of returns an entry with a value. A list of entries is written as a JSON object.
func Of[T int | float64 | bool | string | []Field](key string, value T) Field {
	return Field{key, value}
}

// Value returns an int, a float64, a bool, a string or a []Field. For the zero Field, Value returns nil.
func (f Field) Value() any { return f.value }

// Add adds entries that only some reports have. Add replaces entries with the same keys.
func (r *Report) Add(fields ...Field) {
	for _, f := range fields {
		if i := slices.IndexFunc(r.further, func(have Field) bool { return have.Key == f.Key }); i >= 0 {
			r.further[i] = f
		} else {
			r.further = append(r.further, f)
		}
	}
}

// Get returns an entry that Add has added, or an additional entry that ReadJSON has read. Without such an entry, Get
// returns the zero Field.
func (r *Report) Get(key string) Field {
	if i := slices.IndexFunc(r.further, func(f Field) bool { return f.Key == key }); i >= 0 {
		return r.further[i]
	}
	return Field{}
}

// AssumptionsKey is the key of an object with the assumptions of a result, one text for each key.
const AssumptionsKey = "assumptions"

// place is a key that every report has, and a pointer to its value: an *int or a *float64.
type place struct {
	key string
	at  any
}

func (r *Report) places() []place {
	var all []place
	for _, m := range Metrics() {
		if m.at == nil {
			continue
		}
		d, ok := m.at(r).(*Distribution)
		if !ok {
			all = append(all, place{m.Key, m.at(r)})
			continue
		}
		for _, s := range Statistics() {
			all = append(all, place{s.Key + "_" + m.Key, s.at(d)})
		}
	}
	return all
}

// Fields returns the report's entries, sorted by key bytewise.
func (r *Report) Fields() []Field {
	var fields []Field
	for _, p := range r.places() {
		switch at := p.at.(type) {
		case *int:
			fields = append(fields, Of(p.key, *at))
		case *float64:
			fields = append(fields, Of(p.key, *at))
		}
	}
	fields = append(fields, r.further...)
	stable.Sort(fields, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return fields
}

// Values returns the report's entries by key.
func (r *Report) Values() map[string]any {
	values := map[string]any{}
	for _, f := range r.Fields() {
		values[f.Key] = f.value
	}
	return values
}

// Numbers returns the report's entries that are numbers or booleans. A boolean becomes 0 or 1.
func (r *Report) Numbers() map[string]float64 {
	numbers := map[string]float64{}
	for key, value := range r.Values() {
		switch v := value.(type) {
		case int:
			numbers[key] = float64(v)
		case float64:
			numbers[key] = v
		case bool:
			numbers[key] = 0
			if v {
				numbers[key] = 1
			}
		}
	}
	return numbers
}

// WriteJSON writes the report file: one entry per line, sorted by key.
//
// Go's JSON packages do not write floats in the form of the file: they write 10 instead of 10.0, and 1e-9 instead of
// 1e-09.
func (r *Report) WriteJSON(w io.Writer) error {
	text, err := appendFields(nil, r.Fields(), ",\n  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = fmt.Fprintf(w, "{\n  %s\n}\n", text)
	return err
}

func appendValue(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return dst, fmt.Errorf("%v, must be a finite number", v)
		}
		return AppendFloat(dst, v), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendString(dst, v), nil
	case []Field:
		return AppendObject(dst, v)
	}
	panic("collector: an entry without a value")
}

// AppendObject appends fields on one line, in their order.
func AppendObject(dst []byte, fields []Field) ([]byte, error) {
	dst, err := appendFields(append(dst, '{'), fields, ", ")
	return append(dst, '}'), err
}

func appendFields(dst []byte, fields []Field, separator string) (_ []byte, err error) {
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, separator...)
		}
		dst = append(appendString(dst, f.Key), ": "...)
		if dst, err = appendValue(dst, f.value); err != nil {
			return dst, fmt.Errorf("%s: %w", f.Key, err)
		}
	}
	return dst, nil
}

func appendString(dst []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string cannot cause an error
	return append(dst, quoted...)
}

// AppendFloat appends the shortest digits that parse as v. AppendFloat writes a decimal point for 1e-4 <= |v| < 1e16
// and for 0, otherwise an exponent.
func AppendFloat(dst []byte, v float64) []byte {
	a := math.Abs(v)
	if a != 0 && !(a >= 1e-4 && a < 1e16) { // also for Inf and NaN
		return strconv.AppendFloat(dst, v, 'e', -1, 64)
	}
	if a != 0 && a < 1<<53 && float64(int64(v)) == v {
		return append(strconv.AppendInt(dst, int64(v), 10), ".0"...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	if !slices.Contains(dst[start:], '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

// ReadJSON reads a report file. Every key of Metrics must exist. Unknown keys become further entries, sorted by key.
func ReadJSON(in io.Reader) (*Report, error) {
	var entries map[string]any
	dec := json.NewDecoder(in)
	dec.UseNumber()
	if err := dec.Decode(&entries); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("report: more than one JSON value, expected one object")
	}
	r := &Report{}
	for _, p := range r.places() {
		value, ok := entries[p.key]
		if !ok {
			return nil, fmt.Errorf("report: no %s", p.key)
		}
		if err := readInto(p.at, value); err != nil {
			return nil, fmt.Errorf("report: %s: %w", p.key, err)
		}
		delete(entries, p.key)
	}
	if len(entries) == 0 {
		return r, nil
	}
	var err error
	if r.further, err = readObject(entries); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return r, nil
}

func readInto(place, value any) error {
	number, ok := value.(json.Number)
	if !ok {
		return fmt.Errorf("%v, must be a number", value)
	}
	var err error
	switch at := place.(type) {
	case *int:
		*at, err = strconv.Atoi(number.String())
	case *float64:
		*at, err = number.Float64()
	}
	return err
}

func readExtra(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n, nil
		}
		return v.Float64()
	case bool, string:
		return v, nil
	case map[string]any:
		return readObject(v)
	}
	return nil, fmt.Errorf("%v, must be a number, a boolean, a string or an object of these", value)
}

// readObject converts an object to entries, sorted by key.
func readObject(entries map[string]any) ([]Field, error) {
	fields := make([]Field, 0, len(entries))
	for key, value := range entries {
		value, err := readExtra(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		fields = append(fields, Field{key, value})
	}
	stable.Sort(fields, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return fields, nil
}
