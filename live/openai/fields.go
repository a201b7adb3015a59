package openai

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// fields reads the keys of a body as leniently as vLLM's server: a number may be a string, and a boolean may be 0, 1
// or a word. fields collects the errors, one sentence each.
type fields struct {
	keys map[string]json.RawMessage // keys that have not been read
	bad  []string                   // error sentences of the body
	at   string                     // place of the first error
}

// openFields parses a body and returns an error if it is not an object.
func openFields(body []byte) (*fields, error) {
	f, err := readFields(body)
	if err == nil {
		err = f.err()
	}
	return f, err
}

// readFields parses a body. readFields notes an error if the body is not an object.
func readFields(body []byte) (*fields, error) {
	f := &fields{}
	var any json.RawMessage
	if err := json.Unmarshal(body, &any); err != nil && len(body) > 0 {
		f.bad, f.at = append(f.bad, fmt.Sprintf("body: not JSON: %v", err)), "body"
		return f, nil
	}
	switch {
	case len(body) == 0, string(any) == "null":
		f.complainMissing("body", "a JSON object")
	case any[0] != '{':
		f.complain("body", any, "a JSON object")
	default:
		if err := json.Unmarshal(any, &f.keys); err != nil {
			return f, Refuse("", "body: %v", err)
		}
	}
	return f, nil
}

// complain notes that the value at a place breaks a rule.
func (f *fields) complain(at string, value json.RawMessage, rule string) {
	f.note(at, at+" is "+inputOf(value)+", must be "+rule)
}

// complainMissing notes that a required value at a place is missing.
func (f *fields) complainMissing(at, rule string) {
	f.note(at, at+" is missing, must be "+rule)
}

func (f *fields) note(at, sentence string) {
	f.bad = append(f.bad, sentence)
	if f.at == "" {
		f.at = at
	}
}

// refuse notes that a value breaks a rule, and returns all noted errors.
func (f *fields) refuse(at string, value json.RawMessage, rule string) error {
	f.complain(at, value, rule)
	return f.err()
}

// err returns all noted errors as one error; nil: none.
func (f *fields) err() error {
	if len(f.bad) == 0 {
		return nil
	}
	return &Error{Status: http.StatusBadRequest, Type: "Bad Request", Param: f.at, Message: strings.Join(f.bad, "\n")}
}

// inputOf returns a short description of a value.
func inputOf(raw json.RawMessage) string {
	switch raw[0] {
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			return fmt.Sprintf("a list of %d", len(list))
		}
	case '{':
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil {
			return fmt.Sprintf("an object of %d keys", len(object))
		}
	}
	return fmt.Sprintf("%.100s", raw)
}

// takeKey returns the value of a key, and reports whether the value exists and is not null.
func (f *fields) takeKey(key string) (json.RawMessage, bool) {
	raw, ok := f.keys[key]
	delete(f.keys, key)
	return raw, ok && len(raw) > 0 && string(raw) != "null"
}

// requireValue notes an error if the key exists with the value null.
func (f *fields) requireValue(key, rule string) {
	if raw, ok := f.keys[key]; ok && string(raw) == "null" {
		f.complain("body."+key, raw, rule)
	}
}

// skip ignores keys that have no effect.
func (f *fields) skip(keys ...string) {
	for _, key := range keys {
		delete(f.keys, key)
	}
}

// rest returns the sorted names of the keys that have not been read.
func (f *fields) rest() []string {
	var keys []string
	for key, raw := range f.keys {
		if string(raw) != "null" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// text returns the string of a key; "" if the key is missing.
func (f *fields) text(key string) string {
	raw, ok := f.takeKey(key)
	if !ok {
		return ""
	}
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		f.complain("body."+key, raw, "a string")
	}
	return text
}

// flag returns the boolean of a key, or the default value otherwise.
func (f *fields) flag(key string, otherwise bool) bool {
	raw, ok := f.takeKey(key)
	if !ok {
		return otherwise
	}
	switch strings.ToLower(strings.Trim(string(raw), `"`)) {
	case "true", "1", "1.0", "yes", "y", "on", "t":
		return true
	case "false", "0", "0.0", "no", "n", "off", "f":
		return false
	}
	f.complain("body."+key, raw, "true or false")
	return otherwise
}

// integer returns the integer of a key; nil if the key is missing or wrong.
func (f *fields) integer(key string) *int64 {
	raw, ok := f.takeKey(key)
	if !ok {
		return nil
	}
	return f.parseInteger("body."+key, raw)
}

// parseInteger parses the integer at a place; nil if the value is not an integer.
func (f *fields) parseInteger(at string, raw json.RawMessage) *int64 {
	text := string(raw)
	switch raw[0] {
	case 't', 'f':
		v := int64(len("false") - len(text))
		return &v
	case '[', '{', 'n':
		f.complain(at, raw, "an integer")
		return nil
	case '"':
		text = strings.Trim(text, `"`)
	}
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return &v
	}
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !isNumber(text):
		f.complain(at, raw, "an integer")
	case math.Abs(v) >= math.MaxInt64 && v > 0:
		f.complain(at, raw, "at most 9223372036854775807")
	case math.Abs(v) >= math.MaxInt64:
		f.complain(at, raw, "at least -9223372036854775808")
	case v != math.Trunc(v):
		f.complain(at, raw, "an integer")
	default:
		whole := int64(v)
		return &whole
	}
	return nil
}

// isNumber reports whether a text is a JSON number of any size.
func isNumber(text string) bool {
	return json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789")
}

// number returns the number of a key; nil if the key is missing or wrong.
func (f *fields) number(key string) *float64 {
	raw, ok := f.takeKey(key)
	if !ok {
		return nil
	}
	text := strings.Trim(string(raw), `"`)
	switch raw[0] {
	case 't', 'f':
		v := float64(len("false") - len(text))
		return &v
	case '[', '{':
		f.complain("body."+key, raw, "a number")
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if math.IsInf(v, 0) || math.IsNaN(v) {
		f.complain("body."+key, raw, "a finite number")
		return nil
	}
	if err != nil {
		f.complain("body."+key, raw, "a number")
		return nil
	}
	return &v
}

// list returns the list of a key; nil if the key is missing or wrong.
func (f *fields) list(key string) []json.RawMessage {
	raw, ok := f.takeKey(key)
	if !ok {
		return nil
	}
	var list []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		f.complain("body."+key, raw, "a list")
		return nil
	}
	if list == nil {
		list = []json.RawMessage{}
	}
	return list
}

// object decodes the object of a key into a value, and reports whether it did.
func (f *fields) object(key string, into any) bool {
	raw, ok := f.takeKey(key)
	if !ok {
		return false
	}
	if raw[0] != '{' || json.Unmarshal(raw, into) != nil {
		f.complain("body."+key, raw, "an object")
		return false
	}
	return true
}
