package options

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
)

// Setting is a flag that stands for a key of a JSON object.
type Setting struct {
	Name, Key string
	kind      string // int, number, limit or ratio (those, or unlimited), bool, path, name, range (a number or two with .. between) or object (JSON)
	preset    string
	help      string
	engine    string   // the only engine that reads it; "": all
	cluster   bool     // it is the same in all pools
	Names     []string // of kind name
	offered   []string // of kind path: names that a shell completes
	text      *string  // JSON, "" when not given
}

// IsOnlyFor reports whether no other engine reads it.
func (s *Setting) IsOnlyFor(engine string) bool { return s.engine == engine }

func (s *Setting) Bind(fs *pflag.FlagSet) {
	s.text = new(string)
	flag := fs.VarPF(s, s.Name, "", s.help)
	flag.DefValue = s.preset
	if s.kind == "bool" {
		flag.NoOptDefVal = "true"
	}
}

// String returns the value as Set takes it.
func (s *Setting) String() string {
	if s.text == nil {
		return ""
	}
	var ends []float64
	if s.kind == "range" && json.Unmarshal([]byte(*s.text), &ends) == nil && len(ends) == 2 {
		return fmt.Sprintf("%v..%v", ends[0], ends[1])
	}
	var text string
	if json.Unmarshal([]byte(*s.text), &text) == nil && text != "" {
		return text
	}
	if *s.text == "null" {
		return "unlimited"
	}
	return *s.text
}

func (s *Setting) Type() string { return s.kind }

// Choices returns the names that the flag takes.
func (s *Setting) Choices() []string { return append(s.Names, s.offered...) }

// Set turns the text of the command line into JSON.
func (s *Setting) Set(text string) error {
	switch s.kind {
	case "path":
		quoted, err := json.Marshal(text)
		*s.text = string(quoted)
		return err
	case "object":
		*s.text = text
		return nil
	case "bool":
		v, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("want true or false")
		}
		*s.text = strconv.FormatBool(v)
		return nil
	case "name":
		for _, name := range s.Names {
			if text == name {
				*s.text = strconv.Quote(text)
				return nil
			}
		}
		return errors.New("want " + cli.Either(s.Names) + nearest.Ask(text, s.Names))
	}
	return s.setNumber(text)
}

func (s *Setting) setNumber(text string) error {
	if text == "unlimited" && (s.kind == "limit" || s.kind == "ratio") {
		*s.text = "null"
		return nil
	}
	if s.kind == "range" {
		if from, to, ok := strings.Cut(text, ".."); ok {
			low, err := parseFinite(from)
			high, err2 := parseFinite(to)
			if err != nil || err2 != nil {
				return errors.New("want a number, or two with .. between")
			}
			*s.text = fmt.Sprintf("[%v,%v]", low, high)
			return nil
		}
	}
	if s.kind == "number" || s.kind == "ratio" || s.kind == "range" {
		v, err := parseFinite(text)
		if err != nil {
			return err
		}
		*s.text = strconv.FormatFloat(v, 'g', -1, 64)
		return nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errors.New("want an integer")
	}
	*s.text = strconv.FormatInt(v, 10)
	return nil
}

func parseFinite(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, errors.New("want a number")
	}
	return v, nil
}

// GivenOf returns the settings that have a value.
func GivenOf(settings []Setting) []Setting {
	var all []Setting
	for _, s := range settings {
		if *s.text != "" {
			all = append(all, s)
		}
	}
	return all
}

// byKey is the first setting of that key, or nil.
func byKey(settings []Setting, key string) *Setting {
	for i := range settings {
		if s := &settings[i]; s.Key == key {
			return s
		}
	}
	return nil
}
