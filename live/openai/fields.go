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

// fields are the keys of a body, read as leniently as vLLM's server reads them: a number
// may be a text of one, a truth value 0, 1 or a word. What is wrong with them is collected
// and said in sentences of this package, a line each.
type fields struct {
	keys map[string]json.RawMessage // the ones that were not read
	bad  []string                   // what is wrong, a line each
	at   string                     // where the first of it is
}

// openFields reads the keys of a body.
func openFields(body []byte) (*fields, error) {
	f, err := readFields(body)
	if err == nil {
		err = f.err()
	}
	return f, err
}

// readFields reads the keys of a body, if it is an object, and notes what is wrong with it.
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

// complain notes a value at a place that breaks a rule.
func (f *fields) complain(at string, value json.RawMessage, rule string) {
	f.note(at, at+" is "+inputOf(value)+", must be "+rule)
}

// complainMissing notes a value that is required at a place.
func (f *fields) complainMissing(at, rule string) {
	f.note(at, at+" is missing, must be "+rule)
}

func (f *fields) note(at, sentence string) {
	f.bad = append(f.bad, sentence)
	if f.at == "" {
		f.at = at
	}
}

// refuse notes a value that breaks a rule, and returns the error of all notes.
func (f *fields) refuse(at string, value json.RawMessage, rule string) error {
	f.complain(at, value, rule)
	return f.err()
}

// err returns what is wrong, if anything is.
func (f *fields) err() error {
	if len(f.bad) == 0 {
		return nil
	}
	return &Error{Status: http.StatusBadRequest, Type: "Bad Request", Param: f.at, Message: strings.Join(f.bad, "\n")}
}

// inputOf returns a value in a few characters.
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

// takeKey returns the value of a key, and reports whether it is there and not null.
func (f *fields) takeKey(key string) (json.RawMessage, bool) {
	raw, ok := f.keys[key]
	delete(f.keys, key)
	return raw, ok && len(raw) > 0 && string(raw) != "null"
}

// requireValue notes that a key that is there must not be null.
func (f *fields) requireValue(key, rule string) {
	if raw, ok := f.keys[key]; ok && string(raw) == "null" {
		f.complain("body."+key, raw, rule)
	}
}

// skip passes over keys that change nothing here.
func (f *fields) skip(keys ...string) {
	for _, key := range keys {
		delete(f.keys, key)
	}
}

// rest returns the keys that were not read, in order.
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

// text reads a text; "" if there is none.
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

// flag reads a truth value; otherwise if there is none.
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

// integer reads a whole number; nil if there is none.
func (f *fields) integer(key string) *int64 {
	raw, ok := f.takeKey(key)
	if !ok {
		return nil
	}
	return f.parseInteger("body."+key, raw)
}

// parseInteger reads a whole number at a place; nil if it is none.
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

// isNumber reports whether a text is a number that may be too large to be one here.
func isNumber(text string) bool {
	return json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789")
}

// number reads a number; nil if there is none.
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

// list reads a list; nil if there is none.
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

// object reads an object into a value, and reports whether there is one.
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
