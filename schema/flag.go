package schema

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
)

// Flag is the flag of a row, with the methods that the flag packages require of a value.
type Flag struct {
	Row
	JSON string // "": the flag has no value
}

// NewFlags returns a flag for each row that has one.
func NewFlags(rows []Row) []*Flag {
	var all []*Flag
	for i := range rows {
		if rows[i].Help != "" {
			all = append(all, &Flag{Row: rows[i]})
		}
	}
	return all
}

// Given returns the flags that have a value.
func Given(flags []*Flag) []*Flag {
	var all []*Flag
	for _, f := range flags {
		if f.JSON != "" {
			all = append(all, f)
		}
	}
	return all
}

// Setter returns the first flag that sets a key, or nil.
func Setter(flags []*Flag, key string) *Flag {
	for _, f := range flags {
		if f.Sets == key {
			return f
		}
	}
	return nil
}

// Type returns the kind as a string.
func (f *Flag) Type() string { return string(f.Kind) }

// Choices returns the names to complete in a shell.
func (f *Flag) Choices() []string { return append(f.Names, f.Offered...) }

// String returns the value in the form that Set accepts.
func (f *Flag) String() string {
	var ends []float64
	if f.Kind == Range && json.Unmarshal([]byte(f.JSON), &ends) == nil && len(ends) == 2 {
		return fmt.Sprintf("%v..%v", ends[0], ends[1])
	}
	var text string
	if json.Unmarshal([]byte(f.JSON), &text) == nil && text != "" {
		return text
	}
	if f.JSON == "null" {
		return "unlimited"
	}
	return f.JSON
}

// Set sets the value from the text of a command line.
func (f *Flag) Set(text string) (err error) {
	value, err := f.ToJSON(text)
	if err == nil {
		f.JSON = value
	}
	return err
}

// ToJSON converts text from the command line to JSON.
func (r *Row) ToJSON(text string) (string, error) {
	switch r.Kind {
	case Path:
		quoted, err := json.Marshal(text)
		return string(quoted), err
	case Object:
		return text, nil
	case Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return "", errors.New("must be true or false")
		}
		return strconv.FormatBool(v), nil
	case Name:
		for _, name := range r.Names {
			if text == name {
				return strconv.Quote(text), nil
			}
		}
		return "", errors.New("must be " + listNames(r.Names) + nearest.Ask(text, r.Names))
	}
	return r.numberJSON(text)
}

// listNames lists names with "or" before the last.
func listNames(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (r *Row) numberJSON(text string) (string, error) {
	if text == "unlimited" && (r.Kind == Limit || r.Kind == Factor) {
		return "null", nil
	}
	if r.Kind == Range {
		if from, to, ok := strings.Cut(text, ".."); ok {
			low, err := parseFinite(from)
			high, err2 := parseFinite(to)
			if err != nil || err2 != nil {
				return "", errors.New("must be a number, or two with .. between")
			}
			return fmt.Sprintf("[%v,%v]", low, high), nil
		}
	}
	if r.Kind == Real || r.Kind == Factor || r.Kind == Range {
		v, err := parseFinite(text)
		return strconv.FormatFloat(v, 'g', -1, 64), err
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", errors.New("must be an integer")
	}
	return strconv.FormatInt(v, 10), nil
}

func parseFinite(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, errors.New("must be a number")
	}
	return v, nil
}
