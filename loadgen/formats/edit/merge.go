package edit

import (
	"fmt"
	"io"
	"math"

	"github.com/replay-llm/replay/loadgen/formats"
)

// Merge writes several traces as one trace.
type Merge struct {
	// SharedIDs keeps ids unchanged, for files that are parts of one trace. If SharedIDs is false, ids of different
	// files become different.
	SharedIDs bool
	// KeepTimes keeps arrivals unchanged. If KeepTimes is false, the first arrival of every file becomes 0.
	KeepTimes bool
}

// head is the next record of one file.
type head struct {
	stream *formats.Stream
	number int
	rec    formats.Record
	at     float64 // arrival of rec, or of the last record with an arrival
	origin float64
	ended  bool
	order  *formats.Reblock
	name   []byte
}

// Run writes the records of all files sorted by arrival. The records of an unsorted file are written in the order of
// the file. firsts are the earliest arrivals of the files.
func (p Merge) Run(from []Source, firsts []float64, block int, to Sink) error {
	var heads []*head
	defer func() {
		for _, h := range heads {
			h.stream.Close()
		}
	}()
	for i, f := range from {
		s, err := f.Open()
		if err != nil {
			return err
		}
		h := &head{stream: s, number: i, order: formats.NewReblock(s.Block, block)}
		heads = append(heads, h)
		if !p.KeepTimes {
			h.origin = firsts[i]
		}
		if err := h.next(); err != nil {
			return err
		}
	}
	for {
		var first *head
		for _, h := range heads {
			if !h.ended && (first == nil || h.at < first.at) {
				first = h
			}
		}
		if first == nil {
			return nil
		}
		if err := p.write(first, len(heads), to); err != nil {
			return err
		}
		if err := first.next(); err != nil {
			return err
		}
	}
}

func (h *head) next() error {
	err := h.stream.Next(&h.rec)
	if err == io.EOF {
		h.ended = true
		return nil
	}
	if err == nil && h.rec.HasAt {
		h.rec.At -= h.origin
		h.at = h.rec.At
	}
	return err
}

func (p *Merge) write(h *head, files int, to Sink) error {
	r := &h.rec
	h.order.Apply(r)
	if !p.SharedIDs && files > 1 {
		for i, id := range r.IDs {
			if id > math.MaxUint64/uint64(files)-1 {
				return fmt.Errorf("%s:%d: hash_ids[%d] is %d, must be at most %d, so that ids of two files differ", h.stream.Name, r.Line, i, id, math.MaxUint64/uint64(files)-1)
			}
			r.IDs[i] = id*uint64(files) + uint64(h.number)
		}
	}
	if r.Name != "" && !p.SharedIDs {
		prefix := fmt.Sprintf("%d:", h.number)
		r.Name, r.Group = prefix+r.Name, append([]byte(prefix), r.Group...)
		for i := range r.After {
			r.After[i].Name = prefix + r.After[i].Name
		}
	}
	if r.Session != nil && !p.SharedIDs {
		h.name = append(fmt.Appendf(h.name[:0], "%d:", h.number), r.Session...)
		r.Session = h.name
	}
	return to.Write(r)
}
