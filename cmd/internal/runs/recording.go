package runs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/slo"
)

// recording is what a run is to leave besides its report: rows, a directory, a
// digest, and a judgement of objectives.
type recording struct {
	replay.NoOutput
	o      *options.Options
	s      cli.Streams
	wanted bool
	inputs *inputs // nil when nobody asks for a hash
	stdin  *hashed // the trace, when it is standard input and somebody asks for a hash

	seen  *requests.Recorder // nil when nobody asks for rows
	facts *facts             // nil when nobody asks for rows

	rows    []requests.Row
	outcome *slo.Outcome // nil without objectives
	run     rundir.Run
	lines   []string // for people, below the report
}

// Open prepares for what the flags ask for.
func (rec *recording) Open(session *replay.Session) (err error) {
	out := &rec.o.Outputs
	if err := rec.o.CheckOutputs(&session.Spec); err != nil {
		return err
	}
	rec.wanted = out.Requests != "" || out.Dir != "" || out.Digest || len(out.Slo.All) > 0
	if out.Dir != "" || out.Digest {
		if err := rec.hashInputs(&session.Spec, &session.Streams); err != nil {
			return err
		}
		if session.Drive != nil {
			<-rec.inputs.ended // a run in real time wants the cores for itself
		}
	}
	if out.Requests != "" || out.Dir != "" {
		rec.seen = requests.NewRecorder(0)
		rec.facts, err = newFacts(&session.Spec, out)
	}
	return err
}

// Observers returns those that rows and directory need.
func (rec *recording) Observers() []harness.Observer {
	if rec.seen == nil {
		return nil
	}
	return append([]harness.Observer{rec.seen}, rec.facts.keepsWatch()...)
}

// hashInputs hashes the files the run will read. Standard input is hashed while
// it is read.
func (rec *recording) hashInputs(spec *replay.Spec, streams *replay.Streams) error {
	rec.inputs = &inputs{}
	if t := spec.Trace; t != nil && t.Path == "-" {
		rec.stdin = &hashed{in: streams.Stdin, hash: sha256.New()}
		streams.Stdin = rec.stdin
	} else if t != nil {
		if err := rec.inputs.addTrace(t); err != nil {
			return err
		}
	}
	for _, pool := range spec.Pools {
		if path := pool.Engine.ProfilePath; path != "" {
			if err := rec.inputs.addFile("profile", path); err != nil {
				return err
			}
		}
	}
	rec.inputs.hashFiles()
	return nil
}

// Add makes the rows and holds them to the objectives, which adds to the report.
func (rec *recording) Add(session *replay.Session) error {
	if !rec.wanted {
		return nil
	}
	rec.rows = requests.Collect(session.Result.Collector, placesIn(session.Workload), rec.seen, rec.facts.ledgersOf())
	r, out := session.Result.Report, &rec.o.Outputs
	if objectives := out.Slo.All; len(objectives) > 0 {
		rec.outcome = slo.Judge(objectives, out.Attainment, rec.rows, r)
		r.Extra = append(r.Extra, rec.outcome.Fields()...)
		rec.lines = append(rec.lines, rec.outcome.Lines()...)
	}
	if rec.inputs == nil {
		return nil
	}
	inputs, err := rec.inputs.hashedFiles()
	if err != nil {
		return err
	}
	if rec.stdin != nil {
		inputs = slices.Insert(inputs, 0, rec.stdin.inputRead())
	}
	rec.run.Inputs = inputs
	settings := rundir.Settings(session.Spec.Recorded())
	rec.run.SetConfig(settings)
	rec.run.Digest = rundir.NewDigest(inputs, settings, rec.rows)
	if out.Digest {
		r.Extra = append(r.Extra, collector.Field{Key: "digest", Value: rec.run.Digest.Run})
		rec.lines = append(rec.lines, "Digest: "+rec.run.Digest.Run)
	}
	return nil
}

// Write writes the files.
func (rec *recording) Write(ctx context.Context, session *replay.Session) error {
	out, spec, result := &rec.o.Outputs, &session.Spec, session.Result
	if path := out.Requests; path != "" {
		f, err := requests.FormatOf(path)
		if err == nil {
			err = collector.WriteFile(path, func(w io.Writer) error { return requests.Write(rundir.UntilDone(ctx, w), f, rec.rows) })
		}
		if err != nil {
			return fmt.Errorf("--requests: %w", err)
		}
		rec.lines = append(rec.lines, "Saved requests to: "+path)
	}
	if out.Dir == "" {
		return nil
	}
	form, err := requests.ParseFormat(out.Form.Value)
	if err != nil {
		return err
	}
	run := &rec.run
	run.Command = rec.s.Args
	run.Version, run.Seed, run.Compat, run.Partial = cli.Version(), spec.Seed, spec.Compat, result.Partial
	run.Requests = "requests." + form.String()
	files := []rundir.File{
		{Name: rundir.ReportFile, Write: result.Report.WriteJSON},
		{Name: run.Requests, Write: func(w io.Writer) error { return requests.Write(w, form, rec.rows) }},
	}
	files = append(files, rec.facts.runFiles()...)
	if err := run.Write(ctx, out.Dir, out.Replace(), files); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	rec.lines = append(rec.lines, "Saved run to: "+out.Dir)
	return nil
}

// endJudged is the error of a run that missed its objectives, when that is one.
func (rec *recording) endJudged() error {
	if rec.outcome == nil || !rec.o.Outputs.SloExit || rec.outcome.Holds() {
		return nil
	}
	return cli.Coded(cli.ExitObjective, "%s", rec.outcome.Missed())
}

// placesIn finds the place of a request in w.
func placesIn(w *loadgen.Workload) func(session, turn int32) requests.Place {
	if w == nil {
		return nil
	}
	first := make([]int32, len(w.Sessions)+1)
	for i := range w.Sessions {
		first[i+1] = first[i] + w.Sessions[i].Turns
	}
	lines := make([]int32, len(w.Turns))
	for i := range w.Turns {
		t := &w.Turns[i]
		lines[first[t.Session]+t.Index] = t.Line
	}
	return func(session, turn int32) requests.Place {
		return requests.Place{Session: w.SessionID(int(session)), Line: int(lines[first[session]+turn])}
	}
}
