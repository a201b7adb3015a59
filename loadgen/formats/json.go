package formats

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
)

// object is a JSON object taken apart one level deep: its values are text
// still, but known to be JSON.
type object struct {
	members []member
	scan    scanner
}

type member struct{ key, value []byte }

// parseText reads text, which is one object and nothing else.
func (o *object) parseText(text []byte) error {
	s := o.beginText(text)
	if s.skipSpace() != '{' {
		if err := s.skipValue(); err != nil {
			return err
		}
		return fmt.Errorf("the line is %s, want a JSON object", excerpt.Cut(bytes.TrimSpace(text)))
	}
	if err := o.readMembers(s); err != nil {
		return err
	}
	return s.checkEnd()
}

// reparseText reads text that parse has found to be JSON; what is no object has no
// members.
func (o *object) reparseText(text []byte) {
	if s := o.beginText(text); s.skipSpace() == '{' {
		_ = o.readMembers(s)
	}
}

// beginText forgets the members of another text.
func (o *object) beginText(text []byte) *scanner {
	o.members = o.members[:0]
	nest := o.scan.nest
	o.scan = partsOf(text)
	o.scan.nest = nest
	return &o.scan
}

// readMembers appends the members of the object at hand.
func (o *object) readMembers(s *scanner) error {
	more, err := s.openValue('{', '}')
	for more && err == nil {
		from := s.pos
		if err := s.skipKey(); err != nil {
			return err
		}
		key := unquoteString(s.data[from:])
		from = s.pos
		if err := s.skipValue(); err != nil {
			return err
		}
		o.members = append(o.members, member{key, s.data[from:s.pos]})
		more, err = s.hasMore('}')
	}
	return err
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

// has reports whether there is a member of one of the keys, null or not.
func (o *object) has(keys ...string) bool {
	return slices.ContainsFunc(o.members, func(m member) bool { return slices.Contains(keys, string(m.key)) })
}

// hasAll reports whether there is each of the keys.
func (o *object) hasAll(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return !o.has(key) })
}

// openInner is the member key, taken apart; what is no object has no members.
func (o *object) openInner(key string) *object {
	var inner object
	inner.reparseText(o.find(key))
	return &inner
}

// openFirst is openInner for the first element of a list.
func (o *object) openFirst(key string) *object {
	var first object
	if parts, _ := splitList(o.find(key), nil); len(parts) > 0 {
		first.reparseText(parts[0])
	}
	return &first
}

// splitList takes apart a list that is known to be JSON; ok is false for other
// values.
func splitList(text []byte, dst [][]byte) (list [][]byte, ok bool) {
	s := partsOf(text)
	if s.skipSpace() != '[' {
		return dst, false
	}
	more, err := s.openValue('[', ']')
	for more && err == nil {
		from := s.pos
		if err = s.skipValue(); err != nil {
			break
		}
		dst = append(dst, text[from:s.pos])
		more, err = s.hasMore(']')
	}
	return dst, err == nil
}

// unquoteString returns the text of the JSON string that text, known to be JSON,
// begins with.
func unquoteString(text []byte) []byte {
	s := partsOf(text)
	inner, _ := s.readString()
	return inner
}
