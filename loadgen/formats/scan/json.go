package scan

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Object has the members of a JSON object. The value of a member is valid JSON that is not parsed yet.
type Object struct {
	Members []Member
	scan    Scanner
}

// Member is a key with the JSON text of its value.
type Member struct{ Key, Value []byte }

// ParseText parses text, which must be a single object.
func (o *Object) ParseText(text []byte) error {
	s := o.beginText(text)
	if s.SkipSpace() != '{' {
		if err := s.skipValue(); err != nil {
			return err
		}
		return fmt.Errorf("the line is %s, must be a JSON object", excerpt.Cut(bytes.TrimSpace(text)))
	}
	if err := o.readMembers(s); err != nil {
		return err
	}
	return s.CheckEnd()
}

// ReparseText parses text that is known to be valid JSON. If text is not an object, there are no members.
func (o *Object) ReparseText(text []byte) {
	if s := o.beginText(text); s.SkipSpace() == '{' {
		_ = o.readMembers(s)
	}
}

// beginText removes all members and starts with another text.
func (o *Object) beginText(text []byte) *Scanner {
	o.Members = o.Members[:0]
	nest := o.scan.nest
	o.scan = partsOf(text)
	o.scan.nest = nest
	return &o.scan
}

// readMembers appends the members of the next object.
func (o *Object) readMembers(s *Scanner) error {
	more, err := s.OpenValue('{', '}')
	for more && err == nil {
		from := s.pos
		if err := s.skipKey(); err != nil {
			return err
		}
		key := UnquoteString(s.data[from:])
		from = s.pos
		if err := s.skipValue(); err != nil {
			return err
		}
		o.Members = append(o.Members, Member{key, s.data[from:s.pos]})
		more, err = s.HasMore('}')
	}
	return err
}

// Find returns the value of key. Find returns nil if the value is missing or null.
func (o *Object) Find(key string) []byte {
	for i := range o.Members {
		if string(o.Members[i].Key) == key {
			return notNull(o.Members[i].Value)
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

// Has reports whether at least one of the keys exists. The value can be null.
func (o *Object) Has(keys ...string) bool {
	return slices.ContainsFunc(o.Members, func(m Member) bool { return slices.Contains(keys, string(m.Key)) })
}

// HasAll reports whether all keys exist.
func (o *Object) HasAll(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return !o.Has(key) })
}

// OpenInner returns the object with the given key. If the value is not an object, there are no members.
func (o *Object) OpenInner(key string) *Object {
	var inner Object
	inner.ReparseText(o.Find(key))
	return &inner
}

// OpenFirst returns the first element of the list with the given key. If this element is not an object, there are no
// members.
func (o *Object) OpenFirst(key string) *Object {
	var first Object
	if parts, _ := SplitList(o.Find(key), nil); len(parts) > 0 {
		first.ReparseText(parts[0])
	}
	return &first
}

// SplitList appends the elements of a list to dst. text must be valid JSON. ok is false if it is not a list.
func SplitList(text []byte, dst [][]byte) (list [][]byte, ok bool) {
	s := partsOf(text)
	if s.SkipSpace() != '[' {
		return dst, false
	}
	more, err := s.OpenValue('[', ']')
	for more && err == nil {
		from := s.pos
		if err = s.skipValue(); err != nil {
			break
		}
		dst = append(dst, text[from:s.pos])
		more, err = s.HasMore(']')
	}
	return dst, err == nil
}

// UnquoteString returns the content of the JSON string at the start of text. text must be valid JSON.
func UnquoteString(text []byte) []byte {
	s := partsOf(text)
	inner, _ := s.ReadString()
	return inner
}
