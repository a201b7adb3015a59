package router

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/internal/decimal"
)

// ParseConfig reads a configuration from a JSON object: missing keys keep their
// defaults, unknown keys are ignored. Its errors are *ConfigError.
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

// ConfigError is everything that is wrong with a configuration.
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

// Fault is one thing wrong with a configuration.
type Fault struct {
	Key   string // "" when it is about several keys, or about none
	Value string // as it was read
	Want  string // what would do; all there is to say without a key
	Range bool   // the value is of the right type, but out of range
}

func (f Fault) String() string {
	switch {
	case f.Key == "":
		return f.Want
	case f.Range:
		return fmt.Sprintf("%s: Validation error: range [%s, want %s]", f.Key, f.Value, f.Want)
	case f.Value == "":
		return fmt.Sprintf("%s: %s", f.Key, f.Want)
	}
	return fmt.Sprintf("%s is %s, want %s", f.Key, f.Value, f.Want)
}

func readConfig(text []byte) (Config, *Fault) {
	c := DefaultConfig()
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil {
		return c, syntaxFault(err)
	} else if t != json.Delim('{') {
		return c, &Fault{Want: "a JSON object is wanted"}
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
			return c, &Fault{Key: key, Want: "given twice, want once"}
		}
		seen = append(seen, key)
		if want := keys[i].read(string(value)); want != "" {
			return c, &Fault{Key: key, Value: string(value), Want: want}
		}
	}
	if _, err := d.Token(); err != nil {
		return c, syntaxFault(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return c, &Fault{Want: "nothing is wanted after the JSON object"}
	}
	return c.withWeight(), nil
}

func syntaxFault(err error) *Fault {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &Fault{Want: "the text ends too early, a JSON object is wanted"}
	}
	return &Fault{Want: err.Error()}
}

// The functions below read one value each. A parser returns what it wants, ""
// when the value is that.

func readNumber(to *float64) func(string) string {
	return func(raw string) (want string) {
		*to, want = parseNumber(raw)
		return want
	}
}

func readInteger(to *uint32) func(string) string {
	return func(raw string) (want string) {
		*to, want = parseUint32(raw)
		return want
	}
}

func readBoolean(to *bool) func(string) string {
	return func(raw string) string {
		if raw != "true" && raw != "false" {
			return "true or false"
		}
		*to = raw == "true"
		return ""
	}
}

func readOrNull[T any](to **T, parse func(string) (T, string)) func(string) string {
	return func(raw string) string {
		*to = nil
		if raw == "null" {
			return ""
		}
		v, want := parse(raw)
		if want != "" {
			return want + " or null"
		}
		*to = &v
		return ""
	}
}

// readOneOf reads a string that names one of the given values.
func readOneOf[T any](to *T, values ...T) func(string) string {
	return func(raw string) string {
		want := ""
		var name string
		isString := json.Unmarshal([]byte(raw), &name) == nil && raw != "null"
		for i, v := range values {
			if isString && fmt.Sprint(v) == name {
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
			want += fmt.Sprintf("%q", fmt.Sprint(v))
		}
		return want
	}
}

func parseUint32(raw string) (uint32, string) {
	v, err := strconv.ParseUint(raw, 10, 32)
	if err != nil {
		return 0, "an integer from 0 to 4294967295"
	}
	return uint32(v), ""
}

func parseNumber(raw string) (float64, string) {
	v, ok := decimal.Parse(raw)
	if !ok {
		return 0, "a number that fits in 64 bits"
	}
	return v, ""
}
