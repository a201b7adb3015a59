package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/report/rundir"
)

// forkFlags are the flags of replay fork.
type forkFlags struct {
	o            *options.Options
	at           cli.Instant
	futures, set []string
	grid         []string
	form         cli.Choice
	jobs         int
}

// mostFutures is the maximum number of futures of a fork.
const mostFutures = 10_000

// NewForkCommand returns the command fork, which replays the past once and several futures from a given time.
func NewForkCommand(s cli.Streams) *cobra.Command {
	f := &forkFlags{o: &options.Options{}}
	cmd := &cobra.Command{
		Use:   "fork RUN --at TIME --future NAME=VALUE,...",
		Short: "Replay a workload up to a time, then several futures",
		Long: `Replay a workload once up to a time, and from there several times: unchanged,
and with changed settings. Each future equals replay trace --change.

RUN is a directory made with --out (its command is run again), or a trace with
the flags of replay trace. TIME is a time of the replay's clock, from 0:00.`,
		Example: `  replay fork out/a --at 30m --set workers=10 --set router=p2c
  replay fork FILE --workers 8 --at 30m --future workers=10 --future router=p2c
  replay fork out/a --at 30m --grid router=kv,p2c --grid workers=8,10`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.CheckSpelling(cmd, args); err != nil {
				return err
			}
			return f.run(cmd.Context(), s, cmd, args)
		},
	}
	f.o.BindReplay(cmd, cli.NewGroup("Futures", func(fs *pflag.FlagSet) {
		fs.Var(&f.at, "at", "`time` of the replay's clock at which the futures start, as 90s, 10m or 17:05")
		fs.StringArrayVar(&f.futures, "future", nil, "changed `settings` of one future, as workers=10,router=p2c; repeatable")
		fs.StringArrayVar(&f.set, "set", nil, "changed `setting` of all futures, as workers=10")
		fs.StringArrayVar(&f.grid, "grid", nil, "setting and its `values`, as router=kv,p2c; repeatable: one future for each combination")
		f.o.Outputs.BindGroup(fs)
		cli.BindForm(fs, &f.form)
		fs.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "`number` of futures that run in parallel; the table does not depend on it")
	}, "at", "future", "set", "grid", "out", "output"))
	return cmd
}

// forked is the replay to fork, and its command line.
type forked struct {
	o       *options.Options
	spec    replay.Spec
	command []string
}

// run forks the replay that the command line names.
func (f *forkFlags) run(ctx context.Context, s cli.Streams, cmd *cobra.Command, args []string) error {
	if !cmd.Flags().Changed("at") {
		return cli.Usagef("no --at: must be the time at which the futures part, as --at 30m")
	}
	if f.jobs < 1 {
		return cli.Usagef("--jobs=%d: must be at least 1", f.jobs)
	}
	if err := f.o.Check(cli.Needs(f.o.Outputs.Dir != "", "with --out", recordingFlags()...)); err != nil {
		return err
	}
	futures, err := f.listFutures()
	if err != nil {
		return err
	}
	x, err := f.readRun(s, args)
	if err != nil {
		return err
	}
	if name := x.o.FirstChanged("window", "recycle"); name != "" {
		return x.o.Only(name, "with commands that print a report; a fork counts requests that arrive after --at apart")
	}
	t := forkTable{At: f.at.At, at: f.at.String(), Futures: []future{{Name: asItWas}}}
	all := []futureRun{{spec: x.o.Unchanged(x.spec), alone: x.o.Unchanged(x.spec).Router != x.spec.Router}}
	for _, settings := range futures {
		c, err := x.o.ChangeOf(&x.spec, f.at.At, settings)
		if err != nil {
			return err
		}
		own := futureRun{index: len(all), change: c, flags: changeFlags(t.at, settings), spec: x.spec}
		own.spec.Changes = engines.InsertChange(x.spec.Changes, c)
		all = append(all, own)
		t.Futures = append(t.Futures, future{Name: nameOf(settings)})
	}
	for i := range all {
		t.Futures[i].assume(&all[i].spec)
	}
	for i := range all[1:] {
		x.spec.Possible = append(x.spec.Possible, all[1+i].change)
	}
	return f.replay(ctx, s, x, all, &t)
}

// replay replays the futures of x and prints their results.
func (f *forkFlags) replay(ctx context.Context, s cli.Streams, x *forked, all []futureRun, t *forkTable) (err error) {
	for _, warning := range x.spec.Warnings() {
		s.Warn(warning)
	}
	cli.ManyReplays()
	r := &forkRun{s: s, spec: &x.spec, at: f.at.At, jobs: f.jobs, futures: all, table: t}
	if f.o.Outputs.Dir != "" {
		all[0].alone = true // without changes, observers of a run see the passes of its workers in another order
		if r.out, err = newForkOut(s, x, f.o.Outputs.Dir, nameDirs(t)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.out.group.Close()) }()
	}
	if err := r.replayAll(ctx); err != nil {
		return ExplainError(err)
	}
	if t.Futures[0].After.Requests == 0 {
		s.Warn(fmt.Sprintf("--at=%s: no request arrives after it: futures differ only in requests in flight", t.at))
	}
	to := s.Out
	if f.form.Value == "json" {
		to, err = s.Err, cli.WriteJSON(s.Out, t)
	} else {
		err = t.write(s.Out)
	}
	if err == nil && r.out != nil {
		_, err = fmt.Fprintln(to, r.out.savedLine())
	}
	return err
}

// recordingFlags returns the flags for the contents of the run directories of futures.
func recordingFlags() []string { return []string{"requests-format", "passes", "slo", "slo-attainment"} }

// readRun returns the replay to fork. If the argument is a run directory, readRun returns the recorded replay.
// Otherwise readRun returns the replay of the flags.
func (f *forkFlags) readRun(s cli.Streams, args []string) (*forked, error) {
	own := []string{"at", "future", "set", "grid", "output", "jobs", "out"}
	recorded := false
	if len(args) == 1 {
		_, err := os.Stat(filepath.Join(args[0], rundir.RunFile))
		recorded = err == nil
	}
	if recorded {
		return f.readRecorded(args[0], append(own, recordingFlags()...))
	}
	verb, mode := "trace", loadgen.Trace
	if f.o.Changed("max-in-flight") {
		verb, mode = "concurrency", loadgen.Concurrency
	}
	f.o.ExpectChanges()
	spec, err := f.o.SpecOf(args, mode)
	if err != nil {
		return nil, err
	}
	command, err := commandOf(verb, f.o.Set, s.Args[1:], own)
	return &forked{f.o, spec, command}, err
}

// readRecorded returns the replay of a run directory. The command line may only set the flags in own. The input files
// of the run must be unchanged.
func (f *forkFlags) readRecorded(dir string, own []string) (*forked, error) {
	var other string
	var more []string
	f.o.Set.Visit(func(x *pflag.Flag) {
		switch {
		case slices.Contains(recordingFlags(), x.Name):
			more = append(more, "--"+x.Name+"="+x.Value.String())
		case !slices.Contains(own, x.Name):
			other = x.Name
		}
	})
	if other != "" {
		return nil, cli.Usagef("--%s: a recorded run has its own flags, set it with --set or --future", other)
	}
	recorded, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, in := range recorded.Inputs {
		now, err := rundir.HashFile(in.Role, in.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if now.SHA256 != in.SHA256 {
			return nil, fmt.Errorf("%s: %s is another than when the run was recorded", dir, in.Path)
		}
	}
	mode, known := map[string]loadgen.Mode{"trace": loadgen.Trace, "concurrency": loadgen.Concurrency}[strings.Join(recorded.Command[:min(1, len(recorded.Command))], "")]
	if !known {
		return nil, fmt.Errorf("%s: recorded by replay %s, must be a run of replay trace or replay concurrency", dir, strings.Join(recorded.Command, " "))
	}
	parser := &options.Options{}
	parser.Bind(&cobra.Command{})
	command, err := commandOf(recorded.Command[0], parser.Set, recorded.Command[1:], append(options.OtherOutputs(), "out"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	command = append(command, more...)
	o, cmd := &options.Options{}, &cobra.Command{}
	o.Bind(cmd)
	if err := cmd.ParseFlags(command[1:]); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	o.ExpectChanges()
	spec, err := o.SpecOf(cmd.Flags().Args(), mode)
	return &forked{o, spec, command}, err
}

// listFutures returns the settings of each future.
func (f *forkFlags) listFutures() ([][]plan.Setting, error) {
	var base []plan.Setting
	for _, text := range f.set {
		all, err := options.ParseSettings("set", text)
		if err != nil {
			return nil, err
		}
		base = append(base, all...)
	}
	var futures [][]plan.Setting
	for _, text := range f.futures {
		all, err := options.ParseSettings("future", text)
		if err != nil {
			return nil, err
		}
		futures = append(futures, append(base[:len(base):len(base)], all...))
	}
	if len(f.grid) > 0 {
		g := plan.Grid{Common: base}
		for _, text := range f.grid {
			axis, err := options.ParseAxis("grid", text)
			if err != nil {
				return nil, err
			}
			g.Axes = append(g.Axes, axis)
		}
		if err := g.Check(); err != nil {
			return nil, cli.Usagef("--grid: %v", err)
		}
		if g.Size() > mostFutures {
			return nil, cli.Usagef("--grid: %d futures, must be at most %d", g.Size(), mostFutures)
		}
		for _, c := range g.Cells() {
			futures = append(futures, c.Settings)
		}
	}
	if len(futures) == 0 && len(base) > 0 {
		futures = append(futures, base)
	}
	if len(futures) == 0 {
		return nil, cli.Usagef("no future: use --future, --set or --grid, as --set workers=10")
	}
	return futures, nil
}
