package formats

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/replay-llm/replay/loadgen"
)

// gathered is a file that has to be read to its end before its first request is
// known, because of its order or of what waits for what.
type gathered struct {
	s   *Stream
	bad []error // rows that were bad
	all []Record
}

func (g *gathered) next(r *Record) error {
	if len(g.bad) > 0 {
		err := g.bad[0]
		g.bad = g.bad[1:]
		return err
	}
	if len(g.all) == 0 {
		return io.EOF
	}
	*r = g.all[0]
	g.all = g.all[1:]
	return nil
}

// eachLine calls do with every line and keeps the complaints about them.
func (g *gathered) eachLine(do func(line []byte) error) error {
	for {
		line, err := g.s.lines.next()
		if err == io.EOF {
			return nil
		}
		fine := err == nil
		if fine {
			if err = do(line); err == nil {
				continue
			}
		}
		if _, fatal := err.(*fatalError); fatal {
			return err
		}
		if fine {
			err = g.s.lines.errorf("%v", err)
		}
		g.bad = append(g.bad, err)
		if g.s.o.stops() {
			return nil // nobody reads on
		}
	}
}

// eachObject calls do with every object of the file, and its line: one over
// several lines, those of a list, or one per line.
func (g *gathered) eachObject(do func(value []byte, line int) error) error {
	head, _ := g.s.lines.in.Peek(window)
	first, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte{'\n'})
	var o object
	if o.parseText(first) == nil || len(head) == 0 {
		return g.eachLine(func(line []byte) error {
			if err := o.parseText(line); err != nil {
				return err
			}
			return do(line, g.s.lines.line)
		})
	}
	text, err := g.s.lines.readRest()
	if err != nil {
		return err
	}
	s := partsOf(text)
	if s.skipSpace() == '{' {
		return g.eachValue(text, do)
	}
	err = s.skipValue()
	if err == nil {
		err = s.checkEnd()
	}
	if err != nil {
		return g.s.lines.errorAt(text, s.pos, "%v", err)
	}
	parts, ok := splitList(text, nil)
	if !ok {
		return g.s.lines.errorAt(text, 0, "the file is %s, want an object or a list of objects", cutExcerpt(bytes.TrimSpace(text)))
	}
	for _, p := range parts {
		g.readObject(text, p, do)
	}
	return nil
}

// eachValue is eachObject for objects that follow each other, over any number of
// lines.
func (g *gathered) eachValue(text []byte, do func(value []byte, line int) error) error {
	s := partsOf(text)
	for s.skipSpace(); s.pos < len(text); s.skipSpace() {
		from := s.pos
		if err := s.skipValue(); err != nil {
			return g.s.lines.errorAt(text, min(s.pos, len(bytes.TrimRight(text, " \t\r\n"))), "%v", err)
		}
		g.readObject(text, text[from:s.pos], do)
	}
	return nil
}

func (g *gathered) readObject(text, value []byte, do func([]byte, int) error) {
	line := lineOf(text, offsetOf(text, value))
	if err := do(value, line); err != nil {
		g.bad = append(g.bad, &loadgen.SyntaxError{Name: g.s.Name, Line: line, Msg: err.Error()})
	}
}

// offsetOf is the offset of part, which is a slice of text.
func offsetOf(text, part []byte) int { return cap(text) - cap(part) }

// chooseRun returns the place of the run that was asked for among those of a
// file.
func (s *Stream) chooseRun(runs int) (int, error) {
	if want := max(s.o.Run, 1); runs >= want && (s.o.Run > 0 || runs == 1) {
		return want - 1, nil
	}
	return 0, fmt.Errorf("%d runs in the file, want --run=1 to %d", runs, runs)
}

// scopes numbers ids that mean something inside one scope only.
type scopes map[scoped]uint64

type scoped struct {
	scope string
	id    uint64
}

// number replaces the ids of a scope.
func (s scopes) number(scope string, ids []uint64) {
	for i, id := range ids {
		k := scoped{scope, id}
		n, ok := s[k]
		if !ok {
			n = uint64(len(s))
			s[k] = n
		}
		ids[i] = n
	}
}

// keepRecord adds a copy of r.
func (g *gathered) keepRecord(r *Record) {
	k := *r
	k.IDs, k.Session, k.Group = slices.Clone(r.IDs), bytes.Clone(r.Session), bytes.Clone(r.Group)
	g.all = append(g.all, k)
}

// refuseDAG refuses requests that start others, or wait for several, unless
// they are to be made chains.
func (s *Stream) refuseDAG(spawns, joins int) error {
	edges := spawns + joins
	if edges == 0 {
		return nil
	}
	if s.o.DAG == "" {
		return &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("%d edges are not a chain, want --dag=chain", edges)}
	}
	s.o.warn(fmt.Sprintf("%s: %d edges are not a chain and were left out: %d start another session, %d join", s.Name, edges, spawns, joins))
	return nil
}

// adoptError takes over the complaint of a member's fields.
func (f *fields) adoptError(sub *fields) {
	if f.err == nil {
		f.err = sub.err
	}
}

// openSub is the fields of a member that is an object; it is empty when there is
// none.
func (f *fields) openSub(key string) fields {
	var g fields
	v := f.value(key)
	if v != nil && v[0] != '{' {
		f.mismatch(key, v, "an object")
	}
	g.openMember(v, f.place+key+".")
	return g
}
