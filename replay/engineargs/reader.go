package engineargs

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/decimal"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/scheduler"
)

// reader takes values out of an object. It keeps the first error and reads
// nothing after it.
type reader struct {
	values object
	prefix string // of the keys in messages
	compat bool
	early  bool           // see Options.Early
	pool   scheduler.Role // of engines whose arguments name none
	// strict refuses wrong types even with compat, and takes null as absent.
	strict bool
	asked  []string // keys, in the order in which they were asked for
	err    error
}

// raw returns the text of a key as it stands, nil when the key is absent.
func (r *reader) raw(key string) json.RawMessage {
	r.asked = append(r.asked, key)
	return r.values[key]
}

func (r *reader) fail(key, value, want string) {
	if r.err == nil {
		r.err = &KeyError{r.prefix + key, value, want}
	}
}

// value returns the text of a key that counts, of the wanted kind; kinds are
// named by their first byte as in isKind.
func (r *reader) value(key string, kind byte, want string) (string, bool) {
	text := r.raw(key)
	if text == nil || r.err != nil || (r.strict && string(text) == "null") {
		return "", false
	}
	if !isKind(text, kind) {
		if !r.compat || r.strict {
			r.fail(key, excerpt.CutLine(text), want)
		}
		return "", false
	}
	return string(text), true
}

// isKind reports whether text is of a kind: strings ('"'), booleans ('t'),
// numbers ('0') and integers from 0 to 2^64-1 ('1').
func isKind(text json.RawMessage, kind byte) bool {
	s := string(text)
	switch kind {
	case '"':
		return s[0] == '"'
	case 't':
		return s == "true" || s == "false"
	case '0':
		return s[0] == '-' || ('0' <= s[0] && s[0] <= '9')
	}
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil || s == "-0"
}

func (r *reader) flag(key string, dst *bool) {
	if text, ok := r.value(key, 't', "true or false"); ok {
		*dst = text == "true"
	}
}

func (r *reader) text(key string, dst *string) {
	if text, ok := r.value(key, '"', "a string"); ok {
		if err := json.Unmarshal([]byte(text), dst); err != nil {
			r.fail(key, excerpt.CutLine(text), "a string")
		}
	}
}

// path takes null as absent and refuses other types even with compat, as the
// reference does.
func (r *reader) path(key string, dst *string) {
	strict := r.strict
	r.strict = true
	r.text(key, dst)
	r.strict = strict
}

// choice returns one of names, or "" when the key is absent.
func (r *reader) choice(key string, names ...string) string {
	var s string
	want := quoteNames(names)
	text, ok := r.value(key, '"', want)
	if !ok {
		return ""
	}
	if err := json.Unmarshal([]byte(text), &s); err == nil && slices.Contains(names, s) {
		return s
	}
	r.fail(key, excerpt.CutLine(text), want)
	return ""
}

func quoteNames(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return strconv.Quote(names[0])
	}
	return `"` + strings.Join(names[:last], `", "`) + fmt.Sprintf(`" or %q`, names[last])
}

// size reads an integer ≥ 0 and reports whether there was one. Beyond 2^62 all are
// alike, so that sums do not overflow.
func (r *reader) size(key string, dst *int) bool {
	text, ok := r.value(key, '1', "an integer from 0 to 2^64-1")
	if ok {
		*dst = toInt(text, false)
	}
	return ok
}

// toInt returns the integer that text, of kind '1', stands for; with cut its low
// 32 bits.
func toInt(text string, cut bool) int {
	n, _ := strconv.ParseUint(strings.TrimPrefix(text, "-"), 10, 64)
	if cut {
		n = uint64(uint32(n))
	}
	return int(min(n, 1<<62))
}

// count reads an integer ≥ 1.
func (r *reader) count(key string, dst *int) {
	if r.size(key, dst) && *dst < 1 {
		r.fail(key, strconv.Itoa(*dst), "at least 1")
	}
}

// limit reads an integer ≥ 1, or null for none.
func (r *reader) limit(key string, dst *int) {
	if string(r.raw(key)) == "null" {
		*dst = Unlimited
		return
	}
	r.count(key, dst)
}

// dpSize keeps the low 32 bits, as the reference does.
func (r *reader) dpSize(dst *int) {
	text, ok := r.value("dp_size", '1', "an integer of at least 1")
	if !ok {
		return
	}
	if *dst = toInt(text, r.compat); *dst < 1 {
		r.fail("dp_size", text, "at least 1")
	}
}

func (r *reader) number(key string, dst *float64) bool {
	text, ok := r.value(key, '0', "a number")
	if !ok {
		return false
	}
	f, ok := parseNumber(text, r.compat)
	if !ok {
		r.fail(key, excerpt.CutLine(text), "a number that a float64 can hold")
		return false
	}
	*dst = f
	return true
}

// ratio reads a number ≥ 0.
func (r *reader) ratio(key string, dst *float64) {
	if r.number(key, dst) && *dst < 0 {
		r.fail(key, string(r.values[key]), "at least 0")
	}
}

// port keeps the low 16 bits with compat, as the reference does.
func (r *reader) port(key string, dst *uint16) {
	var n int
	if !r.size(key, &n) {
		return
	}
	if n > math.MaxUint16 && !r.compat {
		r.fail(key, strconv.Itoa(n), "at most 65535")
	}
	*dst = uint16(n)
}

// parseNumber converts a JSON number that fits no integer. With compat it
// repeats the reference, which writes the number out anew and then reads that
// text with roundings of its own.
func parseNumber(text string, compat bool) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || !compat:
		return f, err == nil
	case strings.ContainsAny(text, ".eE"):
		text = writeFloat(f)
	case text == "-0":
		text = "0"
	}
	return decimal.Parse(text)
}

// writeFloat writes the shortest digits that read back as f: positional from
// 1e-4 up to 1e16, with an exponent beyond.
func writeFloat(f float64) string {
	text := strconv.FormatFloat(f, 'e', -1, 64)
	_, exponent, _ := strings.Cut(text, "e")
	if x, _ := strconv.Atoi(exponent); x < -4 || x >= 16 {
		return text
	}
	text = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

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
		return nil, fmt.Errorf("want a JSON object, got %s", excerpt.CutLine(text))
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

// gives reports whether there is a value for key, named as for put.
func (o object) gives(key string) bool {
	outer, inner, nested := strings.Cut(key, ".")
	text, given := o[outer]
	if !given || !nested {
		return given
	}
	members, err := readObject(text)
	_, given = members[inner]
	return err == nil && given
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
			return &KeyError{Key: outer, Value: excerpt.CutLine(text), Want: "an object"}
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
