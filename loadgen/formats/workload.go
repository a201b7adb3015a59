package formats

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// wholeReader is a Reader that can create a workload exactly like the reference.
type wholeReader interface {
	Workload() (*loadgen.Workload, error)
}

// Workload creates a workload from the stream. Nothing of the stream may have been read.
func (s *Stream) Workload() (*loadgen.Workload, error) {
	if whole, ok := s.rows.(wholeReader); ok && s.Options.SkipBad == 0 {
		return whole.Workload()
	}
	return Collect(s)
}

// Each calls do with every record of from. All calls get the same Record.
func Each(from Reader, do func(r *Record) error) error {
	var r Record
	for {
		err := from.Next(&r)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = do(&r)
		}
		if err != nil {
			return err
		}
	}
}

// Collect creates a workload from the remaining records of a stream.
func Collect(s *Stream) (*loadgen.Workload, error) {
	renumber := NewDense(s.Block)
	c := NewCollector(s)
	return s.collect(c, s, func(r *Record) error {
		if !s.Shape.Raw {
			renumber.Apply(r)
		}
		return c.AddRecord(r)
	})
}

// collect creates a workload from the records of from. add adds a record to c.
func (s *Stream) collect(c *Collector, from Reader, add func(r *Record) error) (*loadgen.Workload, error) {
	c.W.Untimed, c.W.Renumbered = s.Untimed, !s.Shape.Raw
	err := Each(from, func(r *Record) error {
		if err := add(r); err != nil {
			return s.countBad(err)
		}
		return nil
	})
	c.W.Dropped = s.Dropped()
	w, err := c.Finish("no requests in the file, must have at least one", err)
	if err == nil && c.tasks != nil && c.tasks.lost > 0 {
		s.Warn(fmt.Sprintf("%s: %d waits for requests that were left out are over at once", s.Name, c.tasks.lost))
	}
	return w, err
}

// CollectRecords creates a workload from generated records. block is the number of tokens per id. The ids do not
// change.
func CollectRecords(from Reader, name string, block int) (*loadgen.Workload, error) {
	c := NewCollector(&Stream{Name: name, Block: block})
	return c.Finish("no requests, must have at least one", Each(from, c.AddRecord))
}

// Collector creates a workload from records.
type Collector struct {
	W      *loadgen.Workload
	Place  func(*Record) (Place, error)
	lines  *scan.Lines  // lines of the file, for estimates of the number of records; nil: none
	OwnIDs bool         // the ids of records are stored elsewhere
	last   []int32      // last turn by session
	stamps []scan.Stamp // start by session; ns 0 and not exact if Arrival is set from At
	ids    scan.Arena
	tasks  *taskMaker // nil until a record has a name
}

// NewCollector returns a Collector for the requests of s.
func NewCollector(s *Stream) *Collector {
	return &Collector{W: &loadgen.Workload{Name: s.Name, TraceBlock: s.Block}, lines: s.Lines, Place: NewOrder(s.Name).Place}
}

// Finish returns the workload. err is the error of reading. none is the error text for an empty workload.
func (c *Collector) Finish(none string, err error) (*loadgen.Workload, error) {
	if n := c.W.Dropped.ZeroOutput; n > 0 {
		none = fmt.Sprintf("all requests are for 0 output tokens (%d dropped), must be at least 1 token in one of them (--zero-output one)", n)
	}
	if err == nil && len(c.W.Turns) == 0 {
		err = &loadgen.SyntaxError{Name: c.W.Name, Msg: none}
	}
	if err != nil {
		return nil, err
	}
	c.countArrivals()
	if c.tasks != nil {
		c.tasks.link(c.W)
	}
	return c.W, nil
}

func (c *Collector) AddRecord(r *Record) error {
	place, err := c.Place(r)
	if err != nil {
		return err
	}
	w := c.W
	turn := int32(len(w.Turns))
	if r.Name != "" {
		if c.tasks == nil {
			c.tasks = new(taskMaker)
		}
		c.tasks.add(r)
	}
	if place.First {
		s := loadgen.Session{First: turn, Arrival: sim.Time(r.At), HasArrival: r.HasAt, Automatic: r.Session == nil}
		if !s.Automatic {
			s.ID = string(r.Session)
		}
		w.Sessions = scan.AppendIn(c.lines, w.Sessions, s)
		c.last = scan.AppendIn(c.lines, c.last, -1)
		if r.Stamped {
			c.stamps = append(c.stamps, make([]scan.Stamp, len(w.Sessions)-1-len(c.stamps))...)
			c.stamps = append(c.stamps, r.When)
		}
	}
	ids := r.IDs
	if !c.OwnIDs {
		c.ids.Begin()
		for _, id := range r.IDs {
			c.ids.Add(id)
		}
		ids = c.ids.List()
	}
	session := &w.Sessions[place.Session]
	if before := c.last[place.Session]; before >= 0 {
		w.Turns[before].Next = turn
	}
	w.Turns = scan.AppendIn(c.lines, w.Turns, loadgen.Turn{
		Session: int32(place.Session), Index: session.Turns, Next: -1, Line: int32(r.Line),
		Input: int32(r.Input), Output: int32(r.Output), IDs: ids, Delay: sim.Time(place.Delay),
	})
	if r.Priority != 0 || w.Priorities != nil {
		w.Priorities = append(w.Priorities, make([]int32, int(turn)-len(w.Priorities))...)
		w.Priorities = append(w.Priorities, r.Priority)
	}
	if r.Class != nil || w.ClassesOf != nil {
		w.ClassesOf = append(w.ClassesOf, make([]int32, int(turn)-len(w.ClassesOf))...)
		class := loadgen.DefaultClass
		if r.Class != nil {
			class = string(r.Class)
		}
		w.ClassesOf = append(w.ClassesOf, w.AddClass(class))
	}
	session.Turns++
	c.last[place.Session] = turn
	return nil
}

// countArrivals computes arrivals relative to the earliest arrival.
func (c *Collector) countArrivals() {
	if len(c.stamps) == 0 {
		return
	}
	c.stamps = append(c.stamps, make([]scan.Stamp, len(c.W.Sessions)-len(c.stamps))...)
	first, found := scan.Stamp{}, false
	for i, s := range c.stamps {
		if c.W.Sessions[i].HasArrival && (!found || s.Compare(first) < 0) {
			first, found = s, true
		}
	}
	for i, s := range c.stamps {
		if c.W.Sessions[i].HasArrival {
			c.W.Sessions[i].Arrival = sim.Time(s.Since(first))
		}
	}
}

// Order determines the positions of requests in their sessions, and delays from recorded times.
type Order struct {
	name     string
	sessions int
	named    map[string]int
	ends     []sessionEnd // ends of named sessions
	most     int          // maximum number of named sessions; 0: no limit
	beyond   int          // number of requests of other sessions
}

type sessionEnd struct {
	session int
	at      float64
	has     bool
}

// Place is the position of a request.
type Place struct {
	Session int // number of its session, starting at 0
	First   bool
	Delay   float64 // delay after the previous turn in ms; 0 for the first turn
}

// NewOrder returns an Order without sessions. name is the name of the file in errors.
func NewOrder(name string) *Order { return &Order{name: name, named: make(map[string]int)} }

// Place returns the position of r. Place must be called in file order.
func (o *Order) Place(r *Record) (Place, error) {
	if bad := math.IsNaN(r.At) || math.IsInf(r.At, 0) || math.IsNaN(r.Delay) || math.IsInf(r.Delay, 0); bad {
		return Place{}, o.errorf(r, "arrival is %v and delay %v, must be finite numbers", r.At, r.Delay)
	}
	i, known := -1, false
	if r.Session != nil {
		i, known = o.named[string(r.Session)]
	}
	switch {
	case !known && o.most > 0 && len(o.ends) >= o.most && r.Session != nil:
		o.beyond++
		return Place{}, nil
	case !known:
		if r.HasDelay && r.Delay != 0 {
			return Place{}, o.errorf(r, "delay is %v on the first turn of a session, must be 0 or none", r.Delay)
		}
		p := Place{Session: o.sessions, First: true}
		o.sessions++
		if r.Session != nil {
			o.named[string(r.Session)] = len(o.ends)
			o.ends = append(o.ends, sessionEnd{p.Session, r.At, r.HasAt})
		}
		return p, nil
	}
	end := &o.ends[i]
	p := Place{Session: end.session, Delay: r.Delay}
	switch {
	case r.HasDelay:
	case r.HasAt && !end.has:
		return p, o.errorf(r, "timestamp is given, but session %s had none before, must be a delay", excerpt.Cut(r.Session))
	case r.HasAt:
		p.Delay = r.At - end.at
	}
	if p.Delay < 0 {
		return p, o.errorf(r, "session %s: delay is %v, must be >= 0", excerpt.Cut(r.Session), p.Delay)
	}
	if r.HasAt {
		end.at, end.has = r.At, true
	}
	return p, nil
}

func (o *Order) errorf(r *Record, format string, args ...any) error {
	return &loadgen.SyntaxError{Name: o.name, Line: r.Line, Msg: excerpt.Sprintf(format, args...)}
}

// Clone returns a copy of r that does not share slices with r.
func (r *Record) Clone() Record {
	c := *r
	c.IDs, c.Session, c.Group = slices.Clone(r.IDs), slices.Clone(r.Session), slices.Clone(r.Group)
	c.After, c.Class = slices.Clone(r.After), slices.Clone(r.Class)
	return c
}
