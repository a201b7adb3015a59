package formats

import (
	"cmp"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// spilledGraph returns the requests of a graph that is not kept in memory. spilledGraph implements
// loadgen.GraphSource. Memory has the dependencies and lengths of requests. A temporary file has the block ids of
// prompts.
type spilledGraph struct {
	*spilled
	skeleton *loadgen.Workload // the turns of skeleton have no ids
}

// spillGraph reads all rows of s and writes the block ids of prompts to a temporary file. first has the first record
// of s.
func (s *Stream) spillGraph(first *Record) (*spilledGraph, error) {
	g := new(spilledGraph)
	c := NewCollector(s)
	c.OwnIDs = true // AddRecord gets records without ids
	var err error
	g.spilled, err = s.spillBy(func(x *spilled) error {
		var err error
		if g.skeleton, err = s.collect(c, &begunReader{first, s}, func(r *Record) error { return x.addTurn(c, r) }); err != nil {
			return err
		}
		x.names.w.Classes = g.skeleton.Classes
		return cmp.Or(s.dropIDs(), x.flush())
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// addTurn writes the ids of a record to the file, and adds the record without ids to c.
func (x *spilled) addTurn(c *Collector, r *Record) error {
	if err := x.ids.nameBlocks(r); err != nil {
		return err
	}
	offset := x.length + int64(len(x.buf))
	ids := r.IDs
	r.IDs = nil
	err := c.AddRecord(r)
	if r.IDs = ids; err != nil {
		return err
	}
	x.offsets = append(x.offsets, offset)
	return x.write(&loadgen.Incoming{IDs: ids}, nil)
}

// StoreIDs moves the ids of a record of an Unkept stream to a temporary file. LoadIDs reads the ids back.
func (s *Stream) StoreIDs(r *Record) error {
	if !s.Options.Unkept {
		return nil
	}
	if s.ids == nil {
		var err error
		if s.ids, err = s.spillBy(func(*spilled) error { return nil }); err != nil {
			return scan.Fatal(err)
		}
	}
	r.stored = 1 + s.ids.length + int64(len(s.ids.buf))
	ids := r.IDs
	r.IDs = nil
	if err := s.ids.write(&loadgen.Incoming{IDs: ids}, nil); err != nil {
		return scan.Fatal(err)
	}
	return nil
}

// LoadIDs reads the ids of a record from the temporary file.
func (s *Stream) LoadIDs(r *Record) error {
	if r.stored == 0 {
		return nil
	}
	in := loadgen.Incoming{IDs: r.IDs}
	err := s.ids.flush()
	if err == nil {
		err = s.ids.readTurn(r.stored-1, &in)
	}
	if err != nil {
		return scan.Fatal(err)
	}
	r.IDs, r.stored = in.IDs, 0
	return nil
}

// dropIDs closes the temporary file of StoreIDs.
func (s *Stream) dropIDs() error {
	if s.ids == nil {
		return nil
	}
	x := s.ids
	s.ids = nil
	return x.closeFile()
}

// begunReader returns a record that was already read, and then the remaining records of a reader.
type begunReader struct {
	first *Record // nil: it was returned
	rest  Reader
}

func (b *begunReader) Next(r *Record) error {
	if b.first == nil {
		return b.rest.Next(r)
	}
	*r, b.first = b.first.Clone(), nil
	return nil
}

// Skeleton returns the workload. The turns of the workload have no ids.
func (g *spilledGraph) Skeleton() *loadgen.Workload { return g.skeleton }

// Later reads the turn with index next - 1 in the skeleton into in.
func (g *spilledGraph) Later(next int64, in *loadgen.Incoming) error {
	if err := g.spilled.readTurn(g.offsets[next-1], in); err != nil {
		return err
	}
	w, turn := g.skeleton, int32(next-1)
	t := &w.Turns[turn]
	*in = loadgen.Incoming{
		IDs: in.IDs, Input: t.Input, Output: t.Output, Line: t.Line, Priority: w.PriorityOf(turn), Class: w.ClassOf(turn),
		Session: t.Session, Turn: t.Index, Turns: w.Sessions[t.Session].Turns,
	}
	return nil
}

// MultiTurn reports whether a task has two or more requests.
func (g *spilledGraph) MultiTurn() bool { return g.skeleton.MultiTurn() }

// SessionID returns the name of a task.
func (g *spilledGraph) SessionID(session, _ int32) (string, error) {
	return g.skeleton.SessionID(int(session)), nil
}
