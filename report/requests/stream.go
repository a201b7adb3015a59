package requests

import (
	"strconv"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/sim"
)

// Stream makes a row of each folded request, in order of arrival, and calls all functions of Show with it. The rows
// equal the rows that Collect makes of kept requests.
//
// Stream is a collector.Sink, on the goroutine of the replay that it observes.
type Stream struct {
	Window collector.Window
	// Classes are the names of the classes, if there are any.
	Classes []string
	// Seen and Book, if not nil, add the data of these observers. Afterwards this data is dropped.
	Seen *Recorder
	Book *ledger.Book
	Show []func(r *Row) error // each may change it for those behind
	// Drop, if not nil, is called with the id before which all requests have been shown.
	Drop func(before sim.RequestID)

	unknown Row
	made    bool // unknown is
	row     Row
}

// Folded returns the row of a request to all functions of Show.
func (s *Stream) Folded(f *collector.Folded) error {
	if !s.made {
		s.unknown, s.made = newRow(), true
	}
	r := &s.row
	*r = s.unknown
	s.fillRow(r, f)
	if s.Seen != nil {
		s.Seen.fillRow(r)
		s.Seen.Drop(f.ID + 1)
	}
	if s.Book != nil {
		r.setLedger(s.Book)
		s.Book.Drop(f.ID + 1)
	}
	if s.Drop != nil {
		s.Drop(f.ID + 1)
	}
	for _, show := range s.Show {
		if err := show(r); err != nil {
			return err
		}
	}
	return nil
}

// fillRow copies the data of a folded request.
func (s *Stream) fillRow(r *Row, f *collector.Folded) {
	r.setFacts(sim.RequestID(f.ID), &f.Record)
	if f.Windowed {
		r.InWindow = verdictOf(s.Window.Holds(f.Arrival))
	}
	if f.Apart {
		r.Readmitted = Count(f.Readmitted)
	}
	if f.Outcomes {
		r.setFate(f.Fate, f.Outcome, f.Sent)
	}
	if r.Session = f.SessionID; r.Session == "" {
		r.Session = strconv.Itoa(int(f.Session))
	}
	if f.Line > 0 {
		r.Line = Count(f.Line)
	}
	if len(s.Classes) > 0 {
		r.Class = s.Classes[f.Class]
	}
}
