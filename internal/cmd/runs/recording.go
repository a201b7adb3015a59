package runs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan/regret"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/failures"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/otlp"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/scaling"
	"github.com/replay-llm/replay/report/series"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/report/summary"
	"github.com/replay-llm/replay/report/tasks"
)

// recording has the results of a run in addition to its report: rows of requests, a run directory, a digest, and
// whether objectives are met.
type recording struct {
	inputs *inputs // nil if no hashes are required

	seen *requests.Recorder // nil if no rows are required
	book *ledger.Book       // the division of the time of each request; nil if no rows are required
	// The workers that computed prompts over time, and the state of the run over time. The two fields are nil without
	// a run directory.
	work   *ledger.Log
	series *series.Series
	passes *passes.Log // nil unless --passes is set

	rows    []requests.Row
	passing passing         // used instead of rows if requests are not kept
	outcome *slo.Outcome    // nil without objectives
	faults  *failures.Study // nil without faults
	scaling *scaling.Study  // nil without an autoscaler
	regret  *regret.Study   // nil unless --regret is set
	tasks   *tasks.Study    // nil if requests only wait for the previous turn of their session
	run     rundir.Run
	lines   []string // printed below the report

	concluded conclusions // the range of lines that are conclusions
}

// openRecording prepares the outputs that the flags request.
func (r *run) openRecording() (err error) {
	out := &r.o.Outputs
	if err := r.o.CheckOutputs(&r.spec); err != nil {
		return err
	}
	if out.Dir != "" || out.Digest {
		if r.inputs, err = hashInputs(&r.spec, &r.stdin); err != nil {
			return err
		}
		if r.live {
			r.inputs.reading.Wait() // a run in real time requires all cores
		}
	}
	if err := r.openWatching(); err != nil {
		return err
	}
	r.openPassing()
	return nil
}

// openWatching creates the observers.
func (r *run) openWatching() error {
	out := &r.o.Outputs
	if out.Requests == "" && out.Dir == "" {
		return nil
	}
	if out.Dir != "" {
		r.series = series.New(r.spec.KindNames()...)
	}
	if out.Dir != "" && r.spec.Stream == nil { // this log has a row per prompt and pass in memory
		r.work = new(ledger.Log)
	}
	if out.Passes {
		r.passes = new(passes.Log)
	}
	r.seen = new(requests.Recorder)
	return r.openBook()
}

// openBook creates the ledgers of requests.
func (r *run) openBook() (err error) {
	r.book, err = NewBook(&r.spec, r.work)
	return err
}

// NewBook returns the ledgers of a run's requests on the engines of its workers.
func NewBook(spec *replay.Spec, work *ledger.Log) (*ledger.Book, error) {
	var engines, mixed []*ledger.Engine
	for i := range spec.Pools {
		e, err := ledger.NewEngine(&spec.Pools[i].Engine)
		if err != nil {
			return nil, err
		}
		engines = append(engines, e)
	}
	mix := spec.Entry().Mix
	if later, ok := spec.LaterKind(); ok {
		mix = append(slices.Clone(mix), later)
	}
	for _, k := range mix {
		e, err := ledger.NewEngine(&k.Engine)
		if err != nil {
			return nil, err
		}
		mixed = append(mixed, slices.Repeat([]*ledger.Engine{e}, k.Count)...)
	}
	book := ledger.NewBook(work, engines...)
	book.SetEngines(mixed)
	return book, nil
}

// watching returns the observers for rows and the run directory.
func (rec *recording) watching() []harness.Observer {
	var all []harness.Observer
	if rec.seen != nil {
		all = append(all, rec.seen, rec.book)
	}
	if rec.series != nil {
		all = append(all, rec.series)
	}
	if rec.passes != nil {
		all = append(all, rec.passes)
	}
	return all
}

// addRows creates the rows of requests, checks the objectives and adds the results to the report.
func (r *run) addRows() error {
	r.conclude()
	out, report := &r.o.Outputs, r.result.Report
	if r.tasks = tasks.Summarize(r.workload, loadgen.Admission{Mode: r.spec.Mode, Speedup: r.spec.Speedup}, r.result.Collector); r.tasks != nil {
		report.Add(r.tasks.Fields()...)
		r.lines = append(r.lines, r.tasks.Lines()...)
	}
	if r.spec.Stream != nil {
		if r.hasTasks() {
			r.lines = append(r.lines, "Tasks: not reported with --stream")
		}
		return r.addPassed()
	}
	classed := r.workload != nil && r.workload.Classes != nil
	if out.Requests == "" && out.OTLP == "" && out.Dir == "" && !out.Digest && len(out.Slo.All) == 0 && !classed {
		return nil
	}
	r.rows = requests.Collect(r.result.Collector, PlacesIn(r.workload), r.seen, r.book)
	outcome, fared, err := Judge(out, r.workload, r.rows, r.result)
	if err != nil {
		return err
	}
	if r.outcome = outcome; outcome != nil {
		r.lines = append(r.lines, outcome.Lines()...)
	}
	if fared != nil {
		r.lines = append(r.lines, fared.Lines()...)
	}
	if r.inputs == nil {
		return nil
	}
	return r.addDigest(rundir.Lifecycles(r.rows))
}

// addDigest computes the digest of a run from the hash of its request lifecycles. addDigest adds the digest to the
// report if --digest is set.
func (r *run) addDigest(lifecycles string) error {
	out, report := &r.o.Outputs, r.result.Report
	inputs, err := r.inputs.hashedFiles()
	if err != nil {
		return err
	}
	r.run.Inputs = inputs
	r.run.Config = rundir.SettingsOf(r.spec.Recorded())
	for _, k := range r.workload.CountDropped().Kinds() {
		r.run.Dropped = append(r.run.Dropped, rundir.Dropped{Reason: k.Key, Rows: k.Rows})
	}
	r.run.Digest = rundir.NewDigest(inputs, r.run.Config, lifecycles)
	if out.Digest {
		report.Add(collector.Of("digest", r.run.Digest.Run))
		r.lines = append(r.lines, "Digest: "+r.run.Digest.Run)
	}
	return nil
}

// writeForOthers writes the files for dashboards of other tools.
func (r *run) writeForOthers() error {
	out := &r.o.Outputs
	if out.Metrics != "" {
		all := []summary.Named{{Name: r.workload.Name, Report: r.result.Report}}
		if err := collector.WriteFile(out.Metrics, func(w io.Writer) error { return summary.WriteOpenMetrics(w, all) }); err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
	}
	if out.OTLP == "" {
		return nil
	}
	_, model := r.spec.Entry().Engine.PassTimes.Names()
	run := &otlp.Run{Start: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Model: model, Seed: r.seedOfSpans()}
	if err := collector.WriteFile(out.OTLP, func(w io.Writer) error { return otlp.Write(w, run, r.rows) }); err != nil {
		return fmt.Errorf("--otlp: %w", err)
	}
	return nil
}

// seedOfSpans returns a number that is derived from the settings and the requests of the run. Equal runs have equal
// numbers.
func (r *run) seedOfSpans() uint64 {
	digest := rundir.NewDigest(nil, rundir.SettingsOf(r.spec.Recorded()), rundir.Lifecycles(r.rows))
	_, sum, _ := strings.Cut(digest.Run, ":")
	seed, err := strconv.ParseUint(sum[:16], 16, 64)
	if err != nil {
		panic(err) // a digest has hexadecimal digits
	}
	return seed
}

// writeRecording writes the output files.
func (r *run) writeRecording(ctx context.Context) error {
	out := &r.o.Outputs
	r.run.Lines = append(r.missingLines(), r.lines...)
	if path := out.Requests; path != "" && r.passing.rows == nil {
		f, err := requests.FormatOf(path)
		if err == nil {
			err = collector.WriteFile(path, func(w io.Writer) error { return requests.Write(rundir.UntilDone(ctx, w), f, r.rows) })
		}
		if err != nil {
			return fmt.Errorf("--requests: %w", err)
		}
		r.lines = append(r.lines, "Saved requests to: "+path)
	}
	if err := r.writeForOthers(); err != nil {
		return err
	}
	if out.Dir == "" {
		return nil
	}
	if err := r.run.Write(ctx, out.Dir, out.Replace(), r.listFiles()); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	r.lines = append(r.lines, "Saved run to: "+out.Dir)
	for _, a := range r.run.Absent {
		r.lines = append(r.lines, terminal.WrapLine(fmt.Sprintf("Not in it: %s: %s", a.Name, a.Reason), 11))
	}
	return nil
}

// hasTasks reports whether requests of a trace that is not kept wait for other requests.
func (r *run) hasTasks() bool {
	_, waits := r.workload.Source.(loadgen.GraphSource)
	return waits
}

// listFiles sets the fields of run.json and returns the files of the run directory.
func (r *run) listFiles() []rundir.File {
	form, dir, spec := requests.Format(r.o.Outputs.Form.Value), &r.run, &r.spec
	dir.Command = r.o.Output.Watch.StripFrom(r.s.Args)
	dir.Version, dir.Seed, dir.Compat, dir.Partial = cli.Version(), spec.Seed, spec.Compat, r.result.Partial
	dir.Requests = "requests." + string(form)
	files := []rundir.File{
		{Name: rundir.ReportFile, Write: r.result.Report.WriteJSON},
		{Name: dir.Requests, Write: func(w io.Writer) error { return requests.Write(w, form, r.rows) }},
		{Name: series.WorkersFile, Write: r.series.WriteWorkers},
		{Name: series.FileName, Write: r.series.Write},
	}
	if r.passing.spools != nil {
		files[1].Write = r.copyRows
	}
	if r.work != nil {
		files = append(files, rundir.File{Name: ledger.WorkFile, Write: r.work.Write})
	} else {
		dir.Absent = []rundir.Absent{{Name: ledger.WorkFile, Reason: "--stream keeps no passes"}}
	}
	if r.spec.Stream != nil && len(r.result.Scaling) > 0 {
		dir.Absent = append(dir.Absent, rundir.Absent{Name: scaling.FileName, Reason: noComparison})
	}
	if r.spec.Stream != nil && r.hasTasks() {
		dir.Absent = append(dir.Absent, rundir.Absent{Name: tasks.FileName, Reason: "--stream keeps no tasks"})
	}
	if r.passes != nil {
		files = append(files, rundir.File{Name: passes.FileName, Write: r.passes.Write})
	}
	if r.tasks != nil {
		files = append(files, rundir.File{Name: tasks.FileName, Write: r.tasks.Write})
	}
	if r.faults != nil {
		files = append(files, rundir.File{Name: failures.FileName, Write: r.faults.Write})
	}
	if r.scaling != nil {
		files = append(files, rundir.File{Name: scaling.FileName, Write: r.scaling.Write})
	}
	if r.regret != nil {
		files = append(files, r.regretFile())
	}
	return files
}

// endJudged returns an error if the run missed its objectives and --slo-exit is set.
func (r *run) endJudged() error {
	if r.outcome == nil || !r.o.Outputs.SloExit || r.outcome.Holds() {
		return nil
	}
	return cli.Coded(cli.ExitObjective, "%s", r.outcome.Missed())
}

// PlacesIn returns a function that returns the place of a request in w.
func PlacesIn(w *loadgen.Workload) func(session, turn int32) requests.Place {
	if w == nil {
		return nil
	}
	first := make([]int32, len(w.Sessions)+1)
	for i := range w.Sessions {
		first[i+1] = first[i] + w.Sessions[i].Turns
	}
	turns := make([]int32, len(w.Turns))
	for i := range w.Turns {
		t := &w.Turns[i]
		turns[first[t.Session]+t.Index] = int32(i)
	}
	return func(session, turn int32) requests.Place {
		at := turns[first[session]+turn]
		p := requests.Place{Session: w.SessionID(int(session)), Line: int(w.Turns[at].Line)}
		p.Round = w.RoundOf(session)
		if w.Classes != nil {
			p.Class = w.Classes[w.ClassOf(at)]
		}
		return p
	}
}
