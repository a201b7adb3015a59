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
// and said in its words.
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
		f.complain("json_invalid", "body", "JSON decode error", "<dict of 0 items>", fmt.Sprintf("'error': %s", quoteText(err.Error())))
		return f, nil
	}
	switch {
	case len(body) == 0, string(any) == "null":
		f.complain("missing", "body", "Field required", "None", "")
	case any[0] != '{':
		f.complain("model_attributes_type", "body", "Input should be a valid dictionary or object to extract fields from", inputOf(any), "")
	default:
		if err := json.Unmarshal(any, &f.keys); err != nil {
			return f, Refuse("", "body: %v", err)
		}
	}
	return f, nil
}

// complain notes what is wrong with the input at a place; context is additional detail.
func (f *fields) complain(kind, at, message, input, context string) {
	if context != "" {
		context = ", 'ctx': {" + context + "}"
	}
	f.bad = append(f.bad, fmt.Sprintf("  {'type': '%s', 'loc': '%s', 'msg': %s, 'input': %s%s}", kind, at, quoteText(message), quoteText(input), context))
	if f.at == "" {
		f.at = at
	}
}

// refuse notes the same, and returns all that is wrong.
func (f *fields) refuse(kind, at, message, input, context string) error {
	f.complain(kind, at, message, input, context)
	return f.err()
}

// err returns what is wrong, if anything is.
func (f *fields) err() error {
	if len(f.bad) == 0 {
		return nil
	}
	errors := "errors"
	if len(f.bad) == 1 {
		errors = "error"
	}
	message := fmt.Sprintf("%d validation %s:\n%s", len(f.bad), errors, strings.Join(f.bad, "\n"))
	return &Error{Status: http.StatusBadRequest, Type: "Bad Request", Param: f.at, Message: message}
}

// quoteText writes a text as Python does.
func quoteText(text string) string {
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		return `"` + text + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", `\'`) + "'"
}

// inputOf returns a value in a few characters.
func inputOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return fmt.Sprintf("%.100s", text)
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			return fmt.Sprintf("<list of %d items>", len(list))
		}
	case '{':
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil {
			return fmt.Sprintf("<dict of %d items>", len(object))
		}
	case 't':
		return "True"
	case 'f':
		return "False"
	case 'n':
		return "None"
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
func (f *fields) requireValue(key, kind, message string) {
	if raw, ok := f.keys[key]; ok && string(raw) == "null" {
		f.complain(kind, "body."+key, message, "None", "")
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
		f.complain("string_type", "body."+key, "Input should be a valid string", inputOf(raw), "")
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
	kind, message := "bool_parsing", "Input should be a valid boolean, unable to interpret input"
	if raw[0] == '[' || raw[0] == '{' {
		kind, message = "bool_type", "Input should be a valid boolean"
	}
	f.complain(kind, "body."+key, message, inputOf(raw), "")
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
	text, isText := string(raw), raw[0] == '"'
	switch raw[0] {
	case 't', 'f':
		v := int64(len("false") - len(text))
		return &v
	case '[', '{', 'n':
		f.complain("int_type", at, "Input should be a valid integer", inputOf(raw), "")
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
		f.complain("int_parsing", at, "Input should be a valid integer, unable to parse string as an integer", inputOf(raw), "")
	case math.Abs(v) >= math.MaxInt64 && v > 0:
		f.complain("less_than_equal", at, "Input should be less than or equal to 9223372036854775807", inputOf(raw), "'le': 9223372036854775807")
	case math.Abs(v) >= math.MaxInt64:
		f.complain("greater_than_equal", at, "Input should be greater than or equal to -9223372036854775808", inputOf(raw), "'ge': -9223372036854775808")
	case v != math.Trunc(v) && isText:
		f.complain("int_parsing", at, "Input should be a valid integer, unable to parse string as an integer", inputOf(raw), "")
	case v != math.Trunc(v):
		f.complain("int_from_float", at, "Input should be a valid integer, got a number with a fractional part", inputOf(raw), "")
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
		f.complain("float_type", "body."+key, "Input should be a valid number", inputOf(raw), "")
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if math.IsInf(v, 0) || math.IsNaN(v) {
		f.complain("finite_number", "body."+key, "Input should be a finite number", inputOf(raw), "")
		return nil
	}
	if err != nil {
		f.complain("float_parsing", "body."+key, "Input should be a valid number, unable to parse string as a number", inputOf(raw), "")
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
		f.complain("list_type", "body."+key, "Input should be a valid list", inputOf(raw), "")
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
		f.complain("dict_type", "body."+key, "Input should be a valid dictionary", inputOf(raw), "")
		return false
	}
	return true
}

// writeFloat writes a number as Python does.
func writeFloat(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".eIN") {
		text += ".0"
	}
	return text
}
