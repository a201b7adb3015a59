package collector

import (
	"errors"
	"fmt"

	"github.com/replay-llm/replay/sim"
)

// Quantiles is the method for quantiles of requests without records.
type Quantiles uint8

const (
	Sketched Quantiles = iota // within SketchError of the value at the rank
	Exact                     // by reading all values again from temporary files
)

// Folding configures how a collector folds requests into sums for the report.
type Folding struct {
	Quantiles Quantiles
	Dir       string // of temporary files; "": the system's default
	// Sink, if not nil, receives the folded requests in order of arrival.
	Sink Sink
}

// Sink receives ended requests in order of arrival. After an error Sink receives no more requests.
type Sink interface {
	Folded(f *Folded) error
}

// Folded is everything that a collector knows of a request.
type Folded struct {
	ID sim.RequestID
	Record
	Line, Class int32 // line in the trace, and class, of the request
	Fate        Fate
	Outcome     Outcome
	Readmitted  int // see Collector.Readmitted
	Kinds
	SessionID string // id of the session, if set by a sink; the collector does not set it
}

// Kinds is which facts the requests of a replay can have.
type Kinds struct {
	Windowed bool // the report is of a window
	Apart    bool // admissions after a preemption are counted separately
	Outcomes bool // requests may end without their last token
	Sent     bool // clients have sent them
}

// remark is the facts of a request that are not in its record.
type remark struct {
	line, class int32
	ended       bool // no more facts will be recorded
}

// folding is the sums of requests without records. A request is folded after it and all earlier arrivals have ended,
// so that sums are computed in order of arrival.
type folding struct {
	Folding
	remarks   []remark // one per record
	totals    totals
	window    windowTotals
	outcomes  [Lost + 1]int
	full      int  // number of requests with all requested tokens
	fates     Fate // sums over requests
	metrics   [metrics]series
	stretches stretches
	last      sim.Time // arrival of the latest folded request
	given     Folded   // scratch for Sink
	err       error    // first error of the sink
}

// NewFolding returns a collector that keeps records only of requests that have not ended. The caller must close the
// collector.
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

// Close closes and removes the temporary files, if any. No report can be derived afterwards.
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

// Folds reports whether requests are folded, and returns the method for their quantiles.
func (c *Collector) Folds() (how Quantiles, ok bool) {
	if c.fold == nil {
		return 0, false
	}
	return c.fold.Quantiles, true
}

// Err returns the errors of the sink and of the temporary files. With an error, the report is invalid.
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

// refuseFolding panics if requests are folded, because their records do not exist.
func (c *Collector) refuseFolding() {
	if c.fold != nil {
		panic(fmt.Sprintf("collector: the records of all requests, of which %d were folded", c.first))
	}
}

// endRecord records that a request has ended.
func (c *Collector) endRecord(id sim.RequestID) {
	if c.fold != nil {
		c.fold.remarks[int(id)-c.first].ended = true
	}
}

// foldEnded folds the ended requests up to the first that has not ended.
func (c *Collector) foldEnded() {
	n := 0
	for n < len(c.fold.remarks) && c.fold.remarks[n].ended {
		n++
	}
	c.foldFirst(n)
}

// FoldAll folds all requests, including unfinished ones. No more facts may be recorded afterwards.
func (c *Collector) FoldAll() {
	if c.fold != nil {
		c.foldFirst(len(c.records))
	}
}

// foldFirst folds the first n requests with a record.
func (c *Collector) foldFirst(n int) {
	for i := range n {
		c.foldRequest(i)
	}
	c.first += n
	c.records, c.fold.remarks = c.records[n:], c.fold.remarks[n:]
	c.fromHost = c.fromHost[min(n, len(c.fromHost)):]
}

// foldRequest folds the request of records[i].
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

// addMetrics adds the metrics of a measured request.
func (f *folding) addMetrics(r *Record) {
	f.metrics[ttft].add(float64(r.TTFT()))
	f.metrics[e2e].add(float64(r.E2E()))
	if r.Tokens >= 2 {
		f.metrics[ttst].add(float64(r.TTST()))
		f.metrics[tpot].add(float64(r.TPOT()))
	}
}

// CountFull returns the number of requests with all requested tokens.
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
