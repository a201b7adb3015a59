package formats

import (
	"bytes"
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
)

// gathered is records that were made before they are asked for: those of a file that
// has to be read to its end before its first request is known, because of its order
// or of what waits for what, or those of a line.
type gathered struct {
	s   *Stream
	bad []error // rows that were bad; they are given first
	all []Record
	at  int // of all: the next to be given
}

func (g *gathered) next(r *Record) error {
	if len(g.bad) > 0 {
		err := g.bad[0]
		g.bad = g.bad[1:]
		return err
	}
	if g.at == len(g.all) {
		return io.EOF
	}
	ids := append(r.IDs[:0], g.all[g.at].IDs...)
	*r = g.all[g.at]
	r.IDs = ids
	g.at++
	return nil
}

// add makes room for one more record.
func (g *gathered) add(line int) *Record {
	if len(g.all) < cap(g.all) {
		g.all = g.all[:len(g.all)+1]
	} else {
		g.all = append(g.all, Record{})
	}
	r := &g.all[len(g.all)-1]
	r.reset(line)
	return r
}

// lineRows reads a file line by line.
type lineRows struct {
	gathered
	f    fields
	read func(f *fields) error // adds the records of a line
}

func (l *lineRows) next(r *Record) error {
	for {
		if err := l.gathered.next(r); err != io.EOF {
			return err
		}
		l.all, l.at = l.all[:0], 0
		if err := l.f.nextLine(l.s.lines, l.read); err != nil {
			l.all = l.all[:0]
			return err
		}
	}
}

// eachLine calls do with every line and keeps the complaints about them.
func (g *gathered) eachLine(do func(f *fields) error) error {
	var f fields
	for {
		err := f.nextLine(g.s.lines, do)
		if err == io.EOF {
			return nil
		}
		if _, fatal := err.(*fatalError); fatal {
			return err
		}
		if err != nil {
			g.bad = append(g.bad, err)
			if g.s.o.stops() {
				return nil // nobody reads on
			}
		}
	}
}

// eachObject calls do with every object of the file: one over several lines, those of
// a list, or one per line.
func (g *gathered) eachObject(do func(f *fields) error) error {
	head, _ := g.s.lines.in.Peek(window)
	first, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte{'\n'})
	var o object
	if o.parseText(first) == nil || len(head) == 0 {
		return g.eachLine(do)
	}
	text, err := g.s.lines.readRest()
	if err != nil {
		return err
	}
	s := partsOf(text)
	if s.skipSpace() == '{' {
		for ; s.pos < len(text); s.skipSpace() {
			from := s.pos
			if err := s.skipValue(); err != nil {
				return g.s.lines.errorAt(text, min(s.pos, len(bytes.TrimRight(text, " \t\r\n"))), "%v", err)
			}
			g.readObject(text, text[from:s.pos], do)
		}
		return nil
	}
	if err = s.skipValue(); err == nil {
		err = s.checkEnd()
	}
	if err != nil {
		return g.s.lines.errorAt(text, s.pos, "%v", err)
	}
	parts, ok := splitList(text, nil)
	if !ok {
		return g.s.lines.errorAt(text, 0, "the file is %s, want an object or a list of objects", excerpt.Cut(bytes.TrimSpace(text)))
	}
	for _, p := range parts {
		g.readObject(text, p, do)
	}
	return nil
}

// readObject calls do with value, which is a slice of text.
func (g *gathered) readObject(text, value []byte, do func(f *fields) error) {
	f := fields{line: lineOf(text, offsetOf(text, value))}
	f.reparseText(value)
	if err := f.readBy(do); err != nil {
		g.bad = append(g.bad, rowAt(g.s.Name, f.line, err))
	}
}

// offsetOf is the offset of part, which is a slice of text.
func offsetOf(text, part []byte) int { return cap(text) - cap(part) }

// openRun returns the run that was asked for among those of a file.
func (s *Stream) openRun(f *fields, key string) (*fields, error) {
	list := f.readList(key)
	n, err := s.chooseRun(len(list))
	if err != nil {
		return nil, err
	}
	return f.openElement(key, n, list[n]), nil
}

// chooseRun returns the place of the run that was asked for among those of a
// file.
func (s *Stream) chooseRun(runs int) (int, error) {
	if want := max(s.o.Run, 1); runs >= want && (s.o.Run > 0 || runs == 1) {
		return want - 1, nil
	}
	return 0, fmt.Errorf("%d runs in the file, want --run=1 to %d", runs, runs)
}

// numbers numbers keys from 0 up, in the order in which they come.
type numbers[K comparable] map[K]uint64

func (n numbers[K]) of(key K) uint64 {
	number, ok := n[key]
	if !ok {
		number = uint64(len(n))
		n[key] = number
	}
	return number
}

// scoped is an id that means something inside one scope only.
type scoped struct {
	scope string
	id    uint64
}

// replaceScoped replaces the ids of a scope by their numbers.
func replaceScoped(n numbers[scoped], scope string, ids []uint64) {
	for i, id := range ids {
		ids[i] = n.of(scoped{scope, id})
	}
}

// refuseDAG refuses requests that start others, or wait for several, unless
// they are to be made chains.
func (s *Stream) refuseDAG(spawns, joins int) error {
	edges := spawns + joins
	if edges == 0 {
		return nil
	}
	if s.o.DAG != "chain" {
		return &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("%d edges are not a chain, want --dag=chain", edges)}
	}
	s.o.warn(fmt.Sprintf("%s: %d edges are not a chain and were left out: %d start another session, %d join", s.Name, edges, spawns, joins))
	return nil
}
