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

// passing computes the results of a streamed run from the rows of its requests, one row at a time.
type passing struct {
	rows   *requests.Stream      // nil: no rows are written
	tally  *slo.Tally            // nil without objectives
	fared  *classes.Tally        // nil without classes
	hash   *rundir.LifecycleHash // nil without a digest
	spools *spools               // rows for the run directory; nil without a run directory
}

// openPassing prepares the processing of rows if requests are not kept and an output requires rows.
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

// followClasses starts collecting the results of the workload's classes if requests are not kept.
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

// watchFolded runs the observers on a separate goroutine and sends them the folded requests.
func (r *run) watchFolded(streams *replay.Streams, all observers) *relay.Relay {
	later := relay.NewFolding(all, r.passing.rows)
	streams.Observer, streams.Fold.Sink = later, later
	if r.o.Outputs.Requests != "" || r.o.Outputs.Dir != "" {
		streams.Fold.Sink = &naming{r, later}
	}
	return later
}

// naming adds the names of sessions to requests before it forwards them.
type naming struct {
	run *run
	to  collector.Sink
}

// Folded forwards a request with the name of its session.
func (n *naming) Folded(f *collector.Folded) (err error) {
	if f.SessionID, err = n.run.workload.Source.SessionID(f.Session, f.Line); err != nil {
		return err
	}
	return n.to.Folded(f)
}

// writePassing replays and writes rows during the replay if requests are not kept.
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

// spools has the rows for a run directory in temporary files, in the final format.
type spools struct {
	form  requests.Format
	whole spool
	// plain has the rows without the columns for outcomes. The file of the run directory has these columns only if a
	// request was rejected or shed. plain is empty if no row has an outcome.
	plain spool
}

// spool is a temporary file with rows.
type spool struct {
	file *os.File
	to   *requests.Writer
}

// open creates the temporary file and removes its name, so that other processes cannot open it.
func (s *spool) open(ctx context.Context, form requests.Format) (err error) {
	if s.file, err = os.CreateTemp("", ".replay-rows-*.tmp"); err != nil {
		return fmt.Errorf("a temporary file for --out: %w", err)
	}
	os.Remove(s.file.Name()) // the open file remains usable
	s.to = requests.NewWriter(rundir.UntilDone(ctx, s.file), form)
	return nil
}

// copyTo copies the rows to w and closes the temporary file.
func (s *spool) copyTo(w io.Writer) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, s.file)
	return errors.Join(err, s.file.Close())
}

// spoolRows replays and writes the rows for the run directory to temporary files.
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

// copyRows copies the rows to the run directory.
func (r *run) copyRows(w io.Writer) error {
	s := r.passing.spools
	if shed := r.result.Report.Get("shed_requests"); s.plain.file != nil && r.result.CountRejected() == 0 && shed.Key == "" {
		return s.plain.copyTo(w)
	}
	return s.whole.copyTo(w)
}

// addPassed adds the results of rows that are not kept to the report.
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
