package router

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/decimal"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
)

// ParseConfig parses a configuration from a JSON object. Missing keys have their defaults, and unknown keys are
// ignored. The errors of ParseConfig are *ConfigError.
func ParseConfig(text []byte) (Config, error) {
	c, err := readConfig(text)
	if err != nil {
		return Config{}, &ConfigError{Faults: []Fault{*err}}
	}
	if faults := c.checkAll(); len(faults) > 0 {
		return Config{}, &ConfigError{Faults: faults}
	}
	return c, nil
}

// CheckKeys rejects unknown keys of a configuration that ParseConfig has accepted. The error of CheckKeys is a
// *ConfigError.
func CheckKeys(text []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	var names []string
	for _, key := range new(Config).listKeys() {
		names = append(names, key.name)
	}
	slices.Sort(names)
	var faults []Fault
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch near := nearest.Ask(key, names); {
		case slices.Contains(names, key):
		case near != "":
			faults = append(faults, Fault{Key: key, Want: "no such key" + near})
		default:
			faults = append(faults, Fault{Key: key, Want: "unknown key, must be one of " + strings.Join(names, ", ")})
		}
	}
	if len(faults) > 0 {
		return &ConfigError{Faults: faults}
	}
	return nil
}

// ConfigError is all faults of a configuration.
type ConfigError struct{ Faults []Fault }

func (e *ConfigError) Error() string {
	s := "Failed to parse KvRouterConfig JSON: "
	for i, f := range e.Faults {
		if i > 0 {
			s += "\n"
		}
		s += f.String()
	}
	return s
}

// Fault is one fault of a configuration.
type Fault struct {
	Key   string // "" if the fault is about several keys, or no key
	Value string // as written
	Want  string // the required form; the whole message if Key is ""
	Range bool   // the value has the right type but is out of range
}

func (f Fault) String() string {
	switch {
	case f.Key == "":
		return f.Want
	case f.Range:
		return fmt.Sprintf("%s: Validation error: range [%s, must be %s]", f.Key, f.Value, f.Want)
	case f.Value == "":
		return fmt.Sprintf("%s: %s", f.Key, f.Want)
	}
	return fmt.Sprintf("%s is %s, must be %s", f.Key, f.Value, f.Want)
}

func readConfig(text []byte) (Config, *Fault) {
	c := DefaultConfig()
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil {
		return c, syntaxFault(err)
	} else if t != json.Delim('{') {
		return c, &Fault{Want: "must be a JSON object"}
	}
	keys := c.listKeys()
	var seen []string
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return c, syntaxFault(err)
		}
		key, _ := t.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return c, syntaxFault(err)
		}
		i := slices.IndexFunc(keys, func(k configKey) bool { return k.name == key })
		if i < 0 {
			continue
		}
		if slices.Contains(seen, key) {
			return c, &Fault{Key: key, Want: "given twice, must be unique"}
		}
		seen = append(seen, key)
		if want := readValue(keys[i].to, string(value)); want != "" {
			return c, &Fault{Key: key, Value: string(value), Want: want}
		}
	}
	if _, err := d.Token(); err != nil {
		return c, syntaxFault(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return c, &Fault{Want: "the JSON object is followed by other text, must be the last"}
	}
	return c.withWeight(), nil
}

func syntaxFault(err error) *Fault {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &Fault{Want: "the text ends too early, must be a JSON object"}
	}
	return &Fault{Want: err.Error()}
}

// readValue parses a value by the type of its field. readValue returns the required form, "" if the value is valid.
func readValue(to any, raw string) (want string) {
	switch to := to.(type) {
	case *bool:
		if *to = raw == "true"; !*to && raw != "false" {
			return "true or false"
		}
	case *float64:
		var ok bool
		if *to, ok = decimal.Parse(raw); !ok {
			return "a number that fits in 64 bits"
		}
	case *uint32:
		v, err := strconv.ParseUint(raw, 10, 32)
		if *to = uint32(v); err != nil {
			return "an integer from 0 to 4294967295"
		}
	case **float64:
		return readOrNull(to, raw)
	case **uint32:
		return readOrNull(to, raw)
	case *string:
		return readOneOf(to, raw, "none", "hicache")
	case *LoadModel:
		return readOneOf(to, raw, LoadNone, LoadAIC)
	case *QueueOrder:
		return readOneOf(to, raw, FCFS, LCFS, WSPT, ByPriority, WFQ, EDF)
	}
	return ""
}

func readOrNull[T any](to **T, raw string) (want string) {
	if *to = nil; raw == "null" {
		return ""
	}
	*to = new(T)
	if want = readValue(*to, raw); want != "" {
		want += " or null"
	}
	return want
}

// readOneOf parses a string that must be the name of one of the given values.
func readOneOf[T any](to *T, raw string, values ...T) (want string) {
	var name string
	_ = json.Unmarshal([]byte(raw), &name) // "" if it is not a string; no value has this name
	for i, v := range values {
		text := fmt.Sprint(v)
		if text == name {
			*to = v
			return ""
		}
		switch {
		case i == 0:
		case i == len(values)-1:
			want += " or "
		default:
			want += ", "
		}
		want += strconv.Quote(text)
	}
	return want
}

// numberAt returns the number that place points to. numberAt reports false if place points to another value.
func numberAt(place any) (v float64, ok bool) {
	switch p := place.(type) {
	case *float64:
		return *p, true
	case *uint32:
		return float64(*p), true
	case **float64:
		if *p != nil {
			return **p, true
		}
	case **uint32:
		if *p != nil {
			return float64(**p), true
		}
	}
	return 0, false
}
