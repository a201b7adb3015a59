package scan

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Object is a JSON object taken apart one level deep: its values are text
// still, but known to be JSON.
type Object struct {
	Members []Member
	scan    Scanner
}

// Member is a key with its value, which is JSON text.
type Member struct{ Key, Value []byte }

// ParseText reads text, which is one object and nothing else.
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

// ReparseText reads text that parse has found to be JSON; what is no object has no
// members.
func (o *Object) ReparseText(text []byte) {
	if s := o.beginText(text); s.SkipSpace() == '{' {
		_ = o.readMembers(s)
	}
}

// beginText forgets the members of another text.
func (o *Object) beginText(text []byte) *Scanner {
	o.Members = o.Members[:0]
	nest := o.scan.nest
	o.scan = partsOf(text)
	o.scan.nest = nest
	return &o.scan
}

// readMembers appends the members of the object at hand.
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

// Find is the value of key, nil when there is none or it is null.
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

// Has reports whether there is a member of one of the keys, null or not.
func (o *Object) Has(keys ...string) bool {
	return slices.ContainsFunc(o.Members, func(m Member) bool { return slices.Contains(keys, string(m.Key)) })
}

// HasAll reports whether there is each of the keys.
func (o *Object) HasAll(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return !o.Has(key) })
}

// OpenInner is the member key, taken apart; what is no object has no members.
func (o *Object) OpenInner(key string) *Object {
	var inner Object
	inner.ReparseText(o.Find(key))
	return &inner
}

// OpenFirst is openInner for the first element of a list.
func (o *Object) OpenFirst(key string) *Object {
	var first Object
	if parts, _ := SplitList(o.Find(key), nil); len(parts) > 0 {
		first.ReparseText(parts[0])
	}
	return &first
}

// SplitList takes apart a list that is known to be JSON; ok is false for other
// values.
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

// UnquoteString returns the text of the JSON string that text, known to be JSON,
// begins with.
func UnquoteString(text []byte) []byte {
	s := partsOf(text)
	inner, _ := s.ReadString()
	return inner
}
