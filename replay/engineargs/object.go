package engineargs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// object is a JSON object whose values are not looked at yet. Of a key that
// occurs twice it keeps the last value.
type object map[string]json.RawMessage

// readObject reads text, which must be one object and nothing after it.
func readObject(text []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	open, err := d.Token()
	if err != nil {
		return nil, syntaxError(err, d.InputOffset())
	}
	if open != json.Delim('{') {
		return nil, fmt.Errorf("want a JSON object, got %s", shortenValue(text))
	}
	o := object{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, syntaxError(err, d.InputOffset())
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, syntaxError(err, d.InputOffset())
		}
		o[key.(string)] = value
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, syntaxError(err, d.InputOffset())
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("byte %d: text after the JSON object", d.InputOffset())
	}
	return o, nil
}

func syntaxError(err error, offset int64) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("byte %d: the JSON object ends too early", offset)
	}
	return fmt.Errorf("byte %d: not JSON: %w", offset, err)
}

// put replaces the value of key; "sglang.page_size" means the member of the
// object sglang.
func (o object) put(s Setting) error {
	outer, inner, nested := strings.Cut(s.Key, ".")
	if !nested {
		o[s.Key] = json.RawMessage(s.Value)
		return nil
	}
	members := object{}
	if text, ok := o[outer]; ok && string(text) != "null" {
		var err error
		if members, err = readObject(text); err != nil {
			return &KeyError{Key: outer, Value: shortenValue(text), Want: "an object"}
		}
	}
	members[inner] = json.RawMessage(s.Value)
	text, err := json.Marshal(members)
	o[outer] = text
	return err
}

// unknownKeys lists the keys that are not in known, sorted.
func (o object) unknownKeys(known []string) []string {
	var keys []string
	for key := range o {
		if !slices.Contains(known, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// shortenValue makes a value fit into a message.
func shortenValue(text []byte) string {
	const limit = 60
	s := strings.Join(strings.Fields(string(text)), " ")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
