package schema

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// Values is a JSON object with values as raw JSON. If a key occurs twice, the last value is kept.
type Values map[string]json.RawMessage

// ReadObject parses text, which must be exactly one JSON object.
func ReadObject(text []byte) (Values, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	open, err := d.Token()
	if err != nil {
		return nil, syntaxError(err, d.InputOffset())
	}
	if open != json.Delim('{') {
		return nil, fmt.Errorf("must be a JSON object, got %s", excerpt.CutLine(text))
	}
	values := Values{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, syntaxError(err, d.InputOffset())
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, syntaxError(err, d.InputOffset())
		}
		values[key.(string)] = value
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, syntaxError(err, d.InputOffset())
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("byte %d: text after the JSON object", d.InputOffset())
	}
	return values, nil
}

func syntaxError(err error, offset int64) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("byte %d: the JSON object ends too early", offset)
	}
	return fmt.Errorf("byte %d: not JSON: %w", offset, err)
}

// Gives reports whether there is a value for key. Like for Put, "sglang.page_size" means the member of the object
// sglang.
func (v Values) Gives(key string) bool {
	outer, inner, nested := strings.Cut(key, ".")
	text, given := v[outer]
	if !given || !nested {
		return given
	}
	members, err := ReadObject(text)
	_, given = members[inner]
	return err == nil && given
}

// Put sets the value of a key; "sglang.page_size" means the member of the object sglang.
func (v Values) Put(s Value) error {
	outer, inner, nested := strings.Cut(s.Key, ".")
	if !nested {
		v[s.Key] = json.RawMessage(s.Value)
		return nil
	}
	members := Values{}
	if text, ok := v[outer]; ok && string(text) != "null" {
		var err error
		if members, err = ReadObject(text); err != nil {
			return &KeyError{Key: outer, Value: excerpt.CutLine(text), Rule: "must be an object"}
		}
	}
	members[inner] = json.RawMessage(s.Value)
	text, err := json.Marshal(members)
	v[outer] = text
	return err
}

// Unknown lists the keys that are not in known, sorted.
func (v Values) Unknown(known []string) []string {
	var keys []string
	for key := range v {
		if !slices.Contains(known, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
