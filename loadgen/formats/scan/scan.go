package scan

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Scanner parses JSON text in valid UTF-8, byte by byte. Scanner only stores requested values.
type Scanner struct {
	data    []byte
	pos     int
	Compat  bool     // convert decimals like the reference
	Ignored FieldSet // fields that ReadFields skips
	text    []byte
	nest    []byte // open brackets of the skipped value
	lax     bool   // accept half a surrogate pair as U+FFFD
	// parts marks a scanner that Object and Fields use. A scanner with parts limits the depth of values, and its
	// messages have columns.
	parts bool
}

// partsOf returns a scanner for Object and Fields.
func partsOf(text []byte) Scanner { return Scanner{data: text, parts: true, lax: true} }

// CheckValue returns an error if text is not a single JSON value.
func CheckValue(text []byte) error {
	s := partsOf(text)
	if err := s.skipValue(); err != nil {
		return err
	}
	return s.CheckEnd()
}

// BeginsValue reports whether text starts with a JSON value.
func BeginsValue(text []byte) bool {
	s := partsOf(text)
	return s.skipValue() == nil
}

// MaxDepth is the maximum nesting depth of values for Object and Fields.
const MaxDepth = 512

func (s *Scanner) Reset(line []byte) { s.data, s.pos = line, 0 }

// Peek returns the next byte, or 0 at the end. NUL bytes are not valid in JSON, so 0 is unambiguous.
func (s *Scanner) Peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *Scanner) SkipSpace() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

func (s *Scanner) CheckEnd() error {
	s.SkipSpace()
	switch {
	case s.pos == len(s.data):
		return nil
	case s.parts:
		return fmt.Errorf("more text after the value at column %d, expected one JSON value", s.pos+1)
	}
	return s.unexpectedByte("the end of the line")
}

func (s *Scanner) unexpectedByte(want string) error {
	r, _ := utf8.DecodeRune(s.data[min(s.pos, len(s.data)):])
	switch ended := s.pos >= len(s.data); {
	case ended && s.parts:
		return fmt.Errorf("JSON ends early at column %d, must be %s", len(s.data), want)
	case ended:
		return fmt.Errorf("invalid JSON: the line ends at byte %d, must be %s", s.pos+1, want)
	case s.parts:
		return excerpt.Errorf("invalid JSON: %q at column %d, must be %s", r, s.pos+1, want)
	}
	return excerpt.Errorf("invalid JSON: %q at byte %d, must be %s", r, s.pos+1, want)
}

// OpenValue reads the opening bracket of an object or a list. OpenValue reports whether the object or list has a
// first member.
func (s *Scanner) OpenValue(left, right byte) (bool, error) {
	if s.SkipSpace() != left {
		return false, s.unexpectedByte(strconv.Quote(string(rune(left))))
	}
	s.pos++
	if s.SkipSpace() == right {
		s.pos++
		return false, nil
	}
	return true, nil
}

// HasMore reads the separator or closing bracket after a member. HasMore reports whether another member follows.
func (s *Scanner) HasMore(right byte) (bool, error) {
	switch s.SkipSpace() {
	case ',':
		s.pos++
		s.SkipSpace()
		return true, nil
	case right:
		s.pos++
		return false, nil
	}
	return false, s.unexpectedByte(fmt.Sprintf("%q or %q", ",", string(rune(right))))
}

// readKey reads the key of a member and the colon. The result is valid until the next string is read.
func (s *Scanner) readKey() ([]byte, error) {
	k, err := s.ReadString()
	if err != nil {
		return nil, err
	}
	if s.SkipSpace() != ':' {
		return nil, s.unexpectedByte(`":"`)
	}
	s.pos++
	s.SkipSpace()
	return k, nil
}

// ReadNull reads the next value if it is null. ReadNull reports whether the value was null.
func (s *Scanner) ReadNull() bool {
	if s.Peek() == 'n' && s.readWord("null") == nil {
		return true
	}
	return false
}

func (s *Scanner) readWord(w string) error {
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return s.unexpectedByte("a JSON value")
	}
	s.pos += len(w)
	return nil
}

// ReadString reads a string. The result is valid until the next string is read.
func (s *Scanner) ReadString() ([]byte, error) {
	if s.Peek() != '"' {
		return nil, s.unexpectedByte("a string")
	}
	s.pos++
	for i := s.pos; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			text := s.data[s.pos:i]
			s.pos = i + 1
			return text, nil
		case c == '\\':
			return s.readEscaped(i)
		case c < ' ':
			s.pos = i
			return nil, s.unexpectedByte("no control character in a string")
		}
	}
	s.pos = len(s.data)
	return nil, s.unexpectedByte("the end of a string")
}

// readEscaped reads a string with an escape sequence. first is the offset of its first backslash.
func (s *Scanner) readEscaped(first int) ([]byte, error) {
	s.text = append(s.text[:0], s.data[s.pos:first]...)
	s.pos = first
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.text, nil
		case c == '\\':
			if err := s.readEscape(); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, s.unexpectedByte("no control character in a string")
		default:
			s.text = append(s.text, c)
			s.pos++
		}
	}
	return nil, s.unexpectedByte("the end of a string")
}

// readEscape appends the character of the next escape sequence.
func (s *Scanner) readEscape() error {
	s.pos++ // the backslash
	c := s.Peek()
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return s.readUnicode()
	default:
		return s.unexpectedByte("an escape")
	}
	s.text = append(s.text, c)
	s.pos++
	return nil
}

func (s *Scanner) readUnicode() error {
	r, err := s.readHex()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		var low rune
		half := s.pos
		if s.Peek() == '\\' && s.pos+1 < len(s.data) && s.data[s.pos+1] == 'u' {
			s.pos++
			if low, err = s.readHex(); err != nil {
				return err
			}
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			if !s.lax {
				return fmt.Errorf("invalid JSON: half a surrogate pair before byte %d", s.pos+1)
			}
			s.pos = half // the second escape sequence is a separate character
		}
	}
	s.text = utf8.AppendRune(s.text, r)
	return nil
}

// readHex reads the letter u and the four digits of an escape sequence.
func (s *Scanner) readHex() (rune, error) {
	s.pos++
	var r rune
	for range 4 {
		c := s.Peek()
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, s.unexpectedByte("four hexadecimal digits")
		}
		r = r<<4 | rune(c)
		s.pos++
	}
	return r, nil
}

// skipValue skips a value of any depth.
func (s *Scanner) skipValue() error {
	s.nest = s.nest[:0]
	for {
		if s.parts && len(s.nest) > MaxDepth {
			return fmt.Errorf("JSON is nested %d deep at column %d, must be at most %d", len(s.nest), s.pos+1, MaxDepth)
		}
		opened, err := s.skipValueOrOpen()
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		if done, err := s.skipEnds(); done || err != nil {
			return err
		}
	}
}

// skipValueOrOpen skips a scalar or an empty pair of brackets. For another object or list it reads only the opening
// bracket, and returns true.
func (s *Scanner) skipValueOrOpen() (opened bool, err error) {
	switch c := s.SkipSpace(); {
	case c == '{':
		more, err := s.OpenValue('{', '}')
		if err != nil || !more {
			return false, err
		}
		s.nest = append(s.nest, '}')
		return true, s.skipKey()
	case c == '[':
		more, err := s.OpenValue('[', ']')
		if err != nil || !more {
			return false, err
		}
		s.nest = append(s.nest, ']')
		s.skipWholes()
		return true, nil
	case c == '"':
		return false, s.skipText((*Scanner).ReadString)
	case c == 't':
		return false, s.readWord("true")
	case c == 'f':
		return false, s.readWord("false")
	case c == 'n':
		return false, s.readWord("null")
	case s.parts && c == 'N':
		return false, s.readWord("NaN")
	case s.parts && c == 'I': // Python writes an unlimited rate as Infinity
		return false, s.readWord("Infinity")
	case c == '-' || '0' <= c && c <= '9':
		_, err := s.readNumber()
		return false, err
	}
	return false, s.unexpectedByte("a JSON value")
}

// skipWholes skips integers in a list in the most frequent notation: no leading zero, then a comma and at most one
// blank. skipWholes stops before an integer with another notation, and before the last integer.
func (s *Scanner) skipWholes() {
	text, i := s.data, s.pos
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
		s.pos = i
	}
}

func (s *Scanner) skipKey() error { return s.skipText((*Scanner).readKey) }

// skipText skips a string or a key.
func (s *Scanner) skipText(read func(s *Scanner) ([]byte, error)) error {
	lax := s.lax
	s.lax = true
	_, err := read(s)
	s.lax = lax
	return err
}

// skipEnds reads closing brackets after a value, then a comma and a key. done is true after the last closing bracket.
func (s *Scanner) skipEnds() (done bool, err error) {
	for len(s.nest) > 0 {
		right := s.nest[len(s.nest)-1]
		more, err := s.HasMore(right)
		if err != nil {
			return false, err
		}
		if more {
			if right == '}' {
				return false, s.skipKey()
			}
			return false, nil
		}
		s.nest = s.nest[:len(s.nest)-1]
	}
	return true, nil
}
