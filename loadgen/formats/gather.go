package formats

import (
	"fmt"
	"io"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Gathered has records that were read in advance: the records of a line, or of a file that must be read completely.
type Gathered struct {
	S   *Stream
	Bad []error // errors of invalid rows, which are returned first
	All []Record
	at  int // index in All of the next record
}

func (g *Gathered) Next(r *Record) error {
	if len(g.Bad) > 0 {
		err := g.Bad[0]
		g.Bad = g.Bad[1:]
		return err
	}
	if g.at == len(g.All) {
		return io.EOF
	}
	ids := append(r.IDs[:0], g.All[g.at].IDs...)
	*r = g.All[g.at]
	r.IDs = ids
	g.at++
	return g.S.LoadIDs(r)
}

// Add appends an empty record.
func (g *Gathered) Add(line int) *Record {
	if len(g.All) < cap(g.All) {
		g.All = g.All[:len(g.All)+1]
	} else {
		g.All = append(g.All, Record{})
	}
	r := &g.All[len(g.All)-1]
	r.Reset(line)
	return r
}

// LineRows reads a file line by line.
type LineRows struct {
	Gathered
	f    scan.Fields
	Read func(f *scan.Fields) error // adds the records of a line
}

func (l *LineRows) Next(r *Record) error {
	for {
		if err := l.Gathered.Next(r); err != io.EOF {
			return err
		}
		l.All, l.at = l.All[:0], 0
		if err := l.f.NextLine(l.S.Lines, l.Read); err != nil {
			l.All = l.All[:0]
			return err
		}
	}
}

// EachLine calls do with every line and records errors.
func (g *Gathered) EachLine(do func(f *scan.Fields) error) error {
	return g.S.Lines.EachLine(do, g.keepBad)
}

// EachObject calls do with every object of the file and records errors.
func (g *Gathered) EachObject(do func(f *scan.Fields) error) error {
	return g.S.Lines.EachObject(do, g.keepBad)
}

// keepBad records the error of a row. keepBad reports whether reading should continue.
func (g *Gathered) keepBad(err error) (more bool) {
	g.Bad = append(g.Bad, err)
	return !g.S.Options.StopsAtBad()
}

// Numbers assigns numbers to keys, starting at 0, in order of appearance.
type Numbers[K comparable] map[K]uint64

func (n Numbers[K]) Of(key K) uint64 {
	number, ok := n[key]
	if !ok {
		number = uint64(len(n))
		n[key] = number
	}
	return number
}

// Scoped is an id that is only valid in one scope.
type Scoped struct {
	scope string
	id    uint64
}

// ReplaceScoped replaces the ids of a scope with numbers.
func ReplaceScoped(n Numbers[Scoped], scope string, ids []uint64) {
	for i, id := range ids {
		ids[i] = n.Of(Scoped{scope, id})
	}
}

// RefuseDAG returns an error for requests that start or wait for several requests, unless the option DAG is chain.
func (s *Stream) RefuseDAG(spawns, joins int) error {
	edges := spawns + joins
	if edges == 0 {
		return nil
	}
	if s.Options.DAG != "chain" {
		return &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("%d edges are not a chain, use --dag=chain", edges)}
	}
	s.Warn(fmt.Sprintf("%s: %d edges are not a chain and were left out: %d start another session, %d join", s.Name, edges, spawns, joins))
	return nil
}

// LastEnds has the end of the last turn of each session.
type LastEnds map[string]scan.Stamp

// Chain makes r wait for the previous turn of its session. end is the recorded completion of r.
func (e LastEnds) Chain(r *Record, session []byte, end scan.Stamp) {
	if before, ok := e[string(session)]; ok {
		r.HasDelay, r.Delay = true, max(0, r.When.Since(before))
	}
	e[string(session)] = end
}

// LinkAfter adds r, which waits for the previous turn of its session.
func (g *Gathered) LinkAfter(r *Record, ends LastEnds) {
	if r.Session != nil {
		ends.Chain(r, r.Session, r.Ended)
		if !g.S.Chained {
			r.Session, r.HasDelay, r.Delay = nil, false, 0
		}
	}
	g.All = append(g.All, r.Clone())
}
