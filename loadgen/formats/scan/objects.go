package scan

import (
	"bytes"
	"io"

	"github.com/replay-llm/replay/internal/excerpt"
)

// EachLine calls do with every line, an object. bad gets what is wrong with one, and reports whether to read more.
func (l *Lines) EachLine(do func(f *Fields) error, bad func(error) (more bool)) error {
	var f Fields
	for {
		err := f.NextLine(l, do)
		if err == io.EOF {
			return nil
		}
		if IsFatal(err) {
			return err
		}
		if err != nil && !bad(err) {
			return nil
		}
	}
}

// EachObject calls do with every object of the file: one over several lines, those of
// a list, or one per line. bad gets what is wrong with one, and reports whether to read more lines.
func (l *Lines) EachObject(do func(f *Fields) error, bad func(error) (more bool)) error {
	head, _ := l.Peek()
	first, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte{'\n'})
	var o Object
	if o.ParseText(first) == nil || len(head) == 0 {
		return l.EachLine(do, bad)
	}
	text, err := l.readRest()
	if err != nil {
		return err
	}
	readObject := func(value []byte) {
		f := Fields{Line: LineOf(text, OffsetOf(text, value))}
		f.ReparseText(value)
		if err := f.readBy(do); err != nil {
			bad(RowError(l.name, f.Line, err))
		}
	}
	s := partsOf(text)
	if s.SkipSpace() == '{' {
		for ; s.pos < len(text); s.SkipSpace() {
			from := s.pos
			if err := s.skipValue(); err != nil {
				return l.errorAt(text, min(s.pos, len(bytes.TrimRight(text, " \t\r\n"))), "%v", err)
			}
			readObject(text[from:s.pos])
		}
		return nil
	}
	if err = s.skipValue(); err == nil {
		err = s.CheckEnd()
	}
	if err != nil {
		return l.errorAt(text, s.pos, "%v", err)
	}
	parts, ok := SplitList(text, nil)
	if !ok {
		return l.errorAt(text, 0, "the file is %s, want an object or a list of objects", excerpt.Cut(bytes.TrimSpace(text)))
	}
	for _, p := range parts {
		readObject(p)
	}
	return nil
}
