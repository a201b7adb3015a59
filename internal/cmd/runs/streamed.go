package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/classes"
	"github.com/replay-llm/replay/report/relay"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/slo"
)

// passing derives the results of a streamed run from the rows of its requests, one by one.
type passing struct {
	rows   *requests.Stream      // nil: no rows are written
	tally  *slo.Tally            // nil without objectives
	fared  *classes.Tally        // nil without classes
	hash   *rundir.LifecycleHash // nil without a digest
	spools *spools               // of a run directory; nil without one
}

// openPassing prepares for the rows of requests that are not kept, if an output needs them.
func (r *run) openPassing() {
	out := &r.o.Outputs
	if r.spec.Stream == nil || out.Requests == "" && out.Dir == "" && !out.Digest && len(out.Slo.All) == 0 {
		return
	}
	p := &r.passing
	p.rows = &requests.Stream{
		Window: r.spec.Window, Seen: r.seen, Book: r.book,
	}
	if r.series != nil {
		p.rows.Drop = r.series.Drop
	}
	if len(out.Slo.All) > 0 {
		p.tally = slo.NewTally(out.Slo.All, out.Attainment)
		p.show(p.tally.Add)
	}
	if r.inputs != nil {
		p.hash = rundir.NewLifecycleHash()
		p.show(p.hash.Add)
	}
}

// followClasses has it found how the classes of the workload, which is open now, fare where requests are not kept.
func (r *run) followClasses(streams *replay.Streams) {
	p, names := &r.passing, r.workload.Classes
	if streams.Fold == nil || names == nil {
		return
	}
	if p.rows == nil {
		p.rows = &requests.Stream{Window: r.spec.Window}
		streams.Fold.Sink = p.rows
	}
	p.rows.Classes = names
	p.fared = classes.NewTally(*streams.Fold)
	p.show(p.fared.Add)
}

// show calls to with every row.
func (p *passing) show(to func(*requests.Row)) {
	p.rows.Show = append(p.rows.Show, func(r *requests.Row) error { to(r); return nil })
}

// watchFolded has an observer watch a replay on a separate goroutine, and take the requests that are folded.
func (r *run) watchFolded(streams *replay.Streams, all observers) *relay.Relay {
	later := relay.NewFolding(all, r.passing.rows)
	streams.Observer, streams.Fold.Sink = later, later
	if r.o.Outputs.Requests != "" || r.o.Outputs.Dir != "" {
		streams.Fold.Sink = &naming{r, later}
	}
	return later
}

// naming finds out what sessions are called, while the workload is open, and passes requests on.
type naming struct {
	run *run
	to  collector.Sink
}

// Folded passes a request on with the name of its session.
func (n *naming) Folded(f *collector.Folded) (err error) {
	if f.SessionID, err = n.run.workload.Source.SessionID(f.Session, f.Line); err != nil {
		return err
	}
	return n.to.Folded(f)
}

// writePassing has the rows of requests that are not kept written while they are replayed.
func (r *run) writePassing(ctx context.Context, replay func() error) error {
	path := r.o.Outputs.Requests
	switch {
	case r.passing.rows == nil:
		return replay()
	case r.o.Outputs.Dir != "":
		all := replay
		replay = func() error { return r.spoolRows(ctx, all) }
	}
	if path == "" {
		return replay()
	}
	f, err := requests.FormatOf(path)
	var ended error
	if err == nil {
		err = collector.WriteFile(path, func(w io.Writer) error {
			to := requests.NewWriter(rundir.UntilDone(ctx, w), f)
			r.passing.rows.Show = append(r.passing.rows.Show, to.Add)
			if ended = replay(); ended != nil {
				return ended
			}
			return to.Close()
		})
	}
	if err != nil && ended == nil {
		err = fmt.Errorf("--requests: %w", err)
	}
	return err
}

// spools are the rows of a run directory in temporary files, in the form of its file.
type spools struct {
	form  requests.Format
	whole spool
	// plain omits the columns of the outcomes of requests, which the file has if a request ended in another way than
	// with its last token; empty if no rows have these columns.
	plain spool
}

// spool is rows in a temporary file.
type spool struct {
	file *os.File
	to   *requests.Writer
}

// open opens the file, which no other process can open by name.
func (s *spool) open(ctx context.Context, form requests.Format) (err error) {
	if s.file, err = os.CreateTemp("", ".replay-rows-*.tmp"); err != nil {
		return fmt.Errorf("a temporary file for --out: %w", err)
	}
	os.Remove(s.file.Name()) // an open file stays without its name
	s.to = requests.NewWriter(rundir.UntilDone(ctx, s.file), form)
	return nil
}

// copyTo writes the rows.
func (s *spool) copyTo(w io.Writer) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, s.file)
	return errors.Join(err, s.file.Close())
}

// spoolRows has the rows of a run directory written to temporary files while they are replayed.
func (r *run) spoolRows(ctx context.Context, replay func() error) error {
	s := &spools{form: requests.Format(r.o.Outputs.Form.Value)}
	if err := s.whole.open(ctx, s.form); err != nil {
		return err
	}
	r.passing.spools = s
	r.passing.rows.Show = append(r.passing.rows.Show, func(row *requests.Row) error {
		if row.Outcome == "" {
			return s.whole.to.Add(row)
		}
		if s.plain.file == nil {
			if err := s.plain.open(ctx, s.form); err != nil {
				return err
			}
		}
		plain := *row
		plain.Outcome = ""
		return cmp.Or(s.whole.to.Add(row), s.plain.to.Add(&plain))
	})
	err := cmp.Or(replay(), s.whole.to.Close())
	if err == nil && s.plain.file != nil {
		err = s.plain.to.Close()
	}
	return err
}

// copyRows writes the rows of a run directory.
func (r *run) copyRows(w io.Writer) error {
	s := r.passing.spools
	if shed := r.result.Report.Get("shed_requests"); s.plain.file != nil && r.result.CountRejected() == 0 && shed.Key == "" {
		return s.plain.copyTo(w)
	}
	return s.whole.copyTo(w)
}

// addPassed adds to the report what the rows came to that are gone.
func (r *run) addPassed() error {
	p, out := &r.passing, &r.o.Outputs
	if p.tally != nil {
		if err := slo.CheckClasses(out.Slo.All, r.workload.Classes); err != nil {
			return err
		}
		r.outcome = p.tally.Outcome(r.result, nil)
		r.result.Report.Add(r.outcome.Fields()...)
		r.lines = append(r.lines, r.outcome.Lines()...)
	}
	if p.fared != nil {
		fared, err := p.fared.Summary(r.workload.Classes, r.result.Report.DurationMS)
		if err != nil {
			return err
		}
		r.result.Report.Add(fared.Fields()...)
		r.lines = append(r.lines, fared.Lines()...)
	}
	if p.hash != nil {
		if err := r.addDigest(p.hash.Sum()); err != nil {
			return err
		}
	}
	if how, _ := r.result.Collector.Folds(); how == collector.Sketched {
		r.lines = append(r.lines, terminal.WrapLine(fmt.Sprintf("Quantiles: within %.2g %% (sketched; --quantiles exact finds them)", 100*collector.SketchError), 11))
	}
	if out.Requests != "" {
		r.lines = append(r.lines, "Saved requests to: "+out.Requests)
	}
	return r.result.Collector.Close()
}
