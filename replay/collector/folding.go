package collector

import (
	"errors"
	"fmt"

	"github.com/replay-llm/replay/sim"
)

// Quantiles is how the quantiles of requests are found that are not kept.
type Quantiles uint8

const (
	Sketched Quantiles = iota // within SketchError of the value that it is at its rank
	Exact                     // by reading all values again, which are in temporary files
)

// Folding sets how a collector folds requests into what its report needs.
type Folding struct {
	Quantiles Quantiles
	Dir       string // of temporary files; "": that of the system
	// Sink, when not nil, is given the requests that are folded, in order of arrival.
	Sink Sink
}

// Sink takes requests that are over, in order of arrival. An error ends that: no more are given.
type Sink interface {
	Folded(f *Folded) error
}

// Folded is all that a collector knows of a request.
type Folded struct {
	ID sim.RequestID
	Record
	Line, Class int32 // of the request
	Fate        Fate
	Outcome     Outcome
	Readmitted  int // see Collector.Readmitted
	Kinds
	SessionID string // what the session is called, where a sink has found out; the collector does not know
}

// Kinds is what there is to know of the requests of a replay.
type Kinds struct {
	Windowed bool // the report is of a window
	Apart    bool // admissions after a preemption count apart
	Outcomes bool // requests may end in other ways than with their last token
	Sent     bool // clients have sent them
}

// remark has the known facts of a request that is in no record.
type remark struct {
	line, class int32
	ended       bool // nothing more will be noted of it
}

// folding is the remainder of requests without records. A request is folded once it and all
// that arrived before it are over, so that sums run in order of arrival.
type folding struct {
	Folding
	remarks   []remark // of each record
	totals    totals
	window    windowTotals
	outcomes  [Lost + 1]int
	full      int  // requests that have as many tokens as they asked for
	fates     Fate // sums
	metrics   [metrics]series
	stretches stretches
	last      sim.Time // arrival
	given     Folded   // memory
	err       error    // of the sink or of a temporary file, the first
}

// NewFolding returns a collector that keeps the records of those requests alone that are not over.
// It is to be closed.
func NewFolding(how Folding) (*Collector, error) {
	c := New(0)
	c.fold = &folding{Folding: how}
	c.spans.fold = new(spanFold)
	if how.Quantiles == Sketched {
		c.gaps.fold = new(gapFold)
		return c, nil
	}
	if err := c.openSpools(how.Dir); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// openSpools opens the temporary files.
func (c *Collector) openSpools(dir string) (err error) {
	for i := range c.fold.metrics {
		if c.fold.metrics[i].spool, err = newSpool(dir); err != nil {
			return err
		}
	}
	if c.fold.stretches.spool, err = newSpool(dir); err != nil {
		return err
	}
	c.spans.fold.spool, err = newSpool(dir)
	return err
}

// Close gives up the temporary files, if there are any. No report can be derived then.
func (c *Collector) Close() error {
	if c.fold == nil {
		return nil
	}
	errs := []error{c.fold.stretches.spool.close(), c.spans.fold.spool.close()}
	for i := range c.fold.metrics {
		errs = append(errs, c.fold.metrics[i].spool.close())
	}
	return errors.Join(errs...)
}

// Folds reports whether requests are folded, and how their quantiles are found.
func (c *Collector) Folds() (how Quantiles, ok bool) {
	if c.fold == nil {
		return 0, false
	}
	return c.fold.Quantiles, true
}

// Err returns the first error of a sink or of a temporary file. The report of a collector that has one is worth nothing.
func (c *Collector) Err() error {
	if c.fold == nil {
		return nil
	}
	err := errors.Join(c.fold.err, c.fold.stretches.spool.failed(), c.spans.fold.spool.failed())
	for i := range c.fold.metrics {
		err = errors.Join(err, c.fold.metrics[i].spool.failed())
	}
	return err
}

// refuseFolding panics where the records of all requests are asked for and are not there.
func (c *Collector) refuseFolding() {
	if c.fold != nil {
		panic(fmt.Sprintf("collector: the records of all requests, of which %d were folded", c.first))
	}
}

// endRecord notes that nothing more will be noted of a request.
func (c *Collector) endRecord(id sim.RequestID) {
	if c.fold != nil {
		c.fold.remarks[int(id)-c.first].ended = true
	}
}

// foldEnded folds the requests that are over, up to the first that is not.
func (c *Collector) foldEnded() {
	n := 0
	for n < len(c.fold.remarks) && c.fold.remarks[n].ended {
		n++
	}
	c.foldFirst(n)
}

// FoldAll folds all requests, also unfinished ones: nothing more will be noted.
func (c *Collector) FoldAll() {
	if c.fold != nil {
		c.foldFirst(len(c.records))
	}
}

// foldFirst folds the first n requests that have a record.
func (c *Collector) foldFirst(n int) {
	for i := range n {
		c.foldRequest(i)
	}
	c.first += n
	c.records, c.fold.remarks = c.records[n:], c.fold.remarks[n:]
	c.fromHost = c.fromHost[min(n, len(c.fromHost)):]
}

// foldRequest adds the i-th request that has a record to the rest of those before.
func (c *Collector) foldRequest(i int) {
	f, r, id := c.fold, &c.records[i], sim.RequestID(c.first+i)
	how, measured := c.OutcomeOf(id), c.isMeasured(r)
	f.totals.add(c, r)
	if measured && i < len(c.fromHost) {
		f.totals.fetched += int(c.fromHost[i])
	}
	own, _ := c.Readmitted(id)
	if measured {
		f.totals.reused -= own
	}
	f.window.add(c.window, r)
	f.outcomes[how]++
	f.last = r.Arrival
	if r.OutputTokens > 0 && r.Tokens >= r.OutputTokens {
		f.full++
	}
	if f.stretches.add(r, how); measured {
		f.addMetrics(r)
	}
	if f.Sink != nil && f.err == nil {
		about := &f.remarks[i]
		f.given = Folded{
			ID: id, Record: *r, Line: about.line, Class: about.class, Fate: c.Fate(id), Outcome: how, Readmitted: own,
			Kinds: Kinds{c.windowed, c.apart, c.fates.kept, c.fates.sent > 0},
		}
		f.err = f.Sink.Folded(&f.given)
	}
	if fate := c.fates.of[id]; fate != nil {
		f.fates.add(fate)
		delete(c.fates.of, id)
	}
	delete(c.hits, id)
}

// addMetrics adds what a report has of a measured request.
func (f *folding) addMetrics(r *Record) {
	f.metrics[ttft].add(float64(r.TTFT()))
	f.metrics[e2e].add(float64(r.E2E()))
	if r.Tokens >= 2 {
		f.metrics[ttst].add(float64(r.TTST()))
		f.metrics[tpot].add(float64(r.TPOT()))
	}
}

// CountFull returns how many requests have as many tokens as they asked for.
func (c *Collector) CountFull() (n int) {
	if c.fold != nil {
		n = c.fold.full
	}
	for i := range c.records {
		if r := &c.records[i]; r.OutputTokens > 0 && r.Tokens >= r.OutputTokens {
			n++
		}
	}
	return n
}
