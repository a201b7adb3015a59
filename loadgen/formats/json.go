package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// object is a JSON object taken apart one level deep: its values are text
// still, but known to be JSON.
type object struct{ members []member }

type member struct{ key, value []byte }

// parse reads text, which is one object and nothing else.
func (o *object) parse(text []byte) error {
	c := cursor{text: text}
	o.members = o.members[:0]
	c.space()
	if c.peek() != '{' {
		if err := c.skip(0); err != nil {
			return err
		}
		return fmt.Errorf("the line is %s, want a JSON object", excerpt(bytes.TrimSpace(text)))
	}
	if err := c.object(0, &o.members); err != nil {
		return err
	}
	return c.end()
}

// reparse reads text that parse has found to be JSON; what is no object has no
// members.
func (o *object) reparse(text []byte) {
	c := cursor{text: text}
	o.members = o.members[:0]
	if c.space(); c.peek() == '{' {
		_ = c.object(0, &o.members)
	}
}

// find is the value of key, nil when there is none or it is null.
func (o *object) find(key string) []byte {
	for i := range o.members {
		if string(o.members[i].key) == key {
			return notNull(o.members[i].value)
		}
	}
	return nil
}

func notNull(value []byte) []byte {
	if len(value) == 4 && value[0] == 'n' {
		return nil
	}
	return value
}

// has says whether there is a member key, null or not.
func (o *object) has(keys ...string) bool {
	for _, key := range keys {
		for i := range o.members {
			if string(o.members[i].key) == key {
				return true
			}
		}
	}
	return false
}

// hasAll says whether there is each of the keys.
func (o *object) hasAll(keys ...string) bool {
	for _, key := range keys {
		if !o.has(key) {
			return false
		}
	}
	return true
}

// elements takes apart a list that is known to be JSON; ok is false for other
// values.
func elements(text []byte, dst [][]byte) (list [][]byte, ok bool) {
	c := cursor{text: text}
	if c.space(); c.peek() != '[' {
		return dst, false
	}
	c.pos++
	for c.space(); c.peek() != ']'; c.space() {
		from := c.pos
		if c.skip(0) != nil {
			return dst, false
		}
		dst = append(dst, text[from:c.pos])
		if c.space(); c.peek() == ',' {
			c.pos++
		}
	}
	return dst, true
}

// cursor reads JSON text from front to back.
type cursor struct {
	text []byte
	pos  int
}

// maxDepth bounds the nesting of values that are taken apart.
const maxDepth = 512

// peek is the byte at hand, 0 at the end; a NUL byte is valid nowhere.
func (c *cursor) peek() byte {
	if c.pos < len(c.text) {
		return c.text[c.pos]
	}
	return 0
}

func (c *cursor) space() {
	for c.pos < len(c.text) {
		switch c.text[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

// wrong complains about the byte at hand.
func (c *cursor) wrong(want string) error {
	if c.pos >= len(c.text) {
		return fmt.Errorf("JSON ends early at column %d, want %s", len(c.text), want)
	}
	r, _ := utf8.DecodeRune(c.text[c.pos:])
	return fmt.Errorf("invalid JSON: %q at column %d, want %s", r, c.pos+1, want)
}

func (c *cursor) end() error {
	if c.space(); c.pos < len(c.text) {
		return fmt.Errorf("more text after the value at column %d, want one JSON value", c.pos+1)
	}
	return nil
}

// object reads the object at hand; its members are appended to members, where
// that is not nil.
func (c *cursor) object(depth int, members *[]member) error {
	c.pos++ // the bracket
	if c.space(); c.peek() == '}' {
		c.pos++
		return nil
	}
	for {
		key, err := c.key()
		if err != nil {
			return err
		}
		from := c.pos
		if err := c.skip(depth + 1); err != nil {
			return err
		}
		if members != nil {
			*members = append(*members, member{key, c.text[from:c.pos]})
		}
		c.space()
		switch c.peek() {
		case ',':
			c.pos++
			c.space()
		case '}':
			c.pos++
			return nil
		default:
			return c.wrong(`"," or "}"`)
		}
	}
}

// key reads a member's name and goes to its value.
func (c *cursor) key() ([]byte, error) {
	from := c.pos
	if err := c.string(); err != nil {
		return nil, err
	}
	key := unquote(c.text[from:c.pos])
	if c.space(); c.peek() != ':' {
		return nil, c.wrong(`":"`)
	}
	c.pos++
	c.space()
	return key, nil
}

// skip reads any value.
func (c *cursor) skip(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("JSON is nested %d deep at column %d, want at most %d", depth, c.pos+1, maxDepth)
	}
	switch b := c.peek(); {
	case b == '{':
		return c.object(depth, nil)
	case b == '[':
		return c.list(depth)
	case b == '"':
		return c.string()
	case b == '-' || b >= '0' && b <= '9':
		return c.number()
	case b == 't':
		return c.word("true")
	case b == 'f':
		return c.word("false")
	case b == 'n':
		return c.word("null")
	}
	return c.wrong("a JSON value")
}

func (c *cursor) list(depth int) error {
	c.pos++ // the bracket
	if c.space(); c.peek() == ']' {
		c.pos++
		return nil
	}
	for {
		c.wholes()
		if err := c.skip(depth + 1); err != nil {
			return err
		}
		c.space()
		switch c.peek() {
		case ',':
			c.pos++
			c.space()
		case ']':
			c.pos++
			return nil
		default:
			return c.wrong(`"," or "]"`)
		}
	}
}

// wholes goes over whole numbers as nearly every list has them: no zero in
// front, a comma and at most one blank after. It stops before the first that is
// not so, such as the last.
func (c *cursor) wholes() {
	text, i := c.text, c.pos
	for {
		from := i
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
		if i == from || i+2 >= len(text) || text[i] != ',' || text[from] == '0' && i > from+1 {
			return
		}
		if i++; text[i] == ' ' {
			i++
		}
		c.pos = i
	}
}

func (c *cursor) word(w string) error {
	if len(c.text)-c.pos < len(w) || string(c.text[c.pos:c.pos+len(w)]) != w {
		return c.wrong("a JSON value")
	}
	c.pos += len(w)
	return nil
}

func (c *cursor) string() error {
	if c.peek() != '"' {
		return c.wrong("a string")
	}
	for c.pos++; c.pos < len(c.text); c.pos++ {
		switch b := c.text[c.pos]; {
		case b == '"':
			c.pos++
			return nil
		case b == '\\':
			if err := c.escape(); err != nil {
				return err
			}
		case b < ' ':
			return c.wrong("no control character in a string")
		}
	}
	return c.wrong("the end of a string")
}

// escape goes to the last byte of the escape at hand.
func (c *cursor) escape() error {
	c.pos++
	switch c.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			c.pos++
			if b := c.peek() | 0x20; (b < '0' || b > '9') && (b < 'a' || b > 'f') {
				return c.wrong("four hexadecimal digits")
			}
		}
		return nil
	}
	return c.wrong("an escape")
}

func (c *cursor) number() error {
	if c.peek() == '-' {
		c.pos++
	}
	zero := c.peek() == '0'
	from := c.pos
	if !c.digits() {
		return c.wrong("a digit")
	}
	if zero && c.pos > from+1 {
		c.pos = from + 1
		return c.wrong("no digit after a leading 0")
	}
	if c.peek() == '.' {
		if c.pos++; !c.digits() {
			return c.wrong("a digit after the point")
		}
	}
	if c.peek()|0x20 == 'e' {
		c.pos++
		if b := c.peek(); b == '+' || b == '-' {
			c.pos++
		}
		if !c.digits() {
			return c.wrong("a digit in the exponent")
		}
	}
	return nil
}

func (c *cursor) digits() bool {
	from := c.pos
	for c.pos < len(c.text) && c.text[c.pos]-'0' <= 9 {
		c.pos++
	}
	return c.pos > from
}

// unquote is the text of a JSON string that is known to be one.
func unquote(text []byte) []byte {
	inner := text[1 : len(text)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if json.Unmarshal(text, &s) != nil {
		return inner
	}
	return []byte(s)
}

// excerpt is text cut to a length that fits a message.
func excerpt(text []byte) string {
	const most = 40
	if len(text) <= most {
		return string(text)
	}
	n := most
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return string(text[:n]) + "…"
}
