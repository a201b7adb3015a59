package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/rundir"
)

// forkFlags are those of replay fork.
type forkFlags struct {
	o            *options.Options
	at           cli.Instant
	futures, set []string
	grid         []string
	form         cli.Choice
	jobs         int
}

// mostFutures bounds the futures of a fork.
const mostFutures = 10_000

// NewForkCommand replays the past once, and several futures from an instant on.
func NewForkCommand(s cli.Streams) *cobra.Command {
	f := &forkFlags{o: &options.Options{}}
	cmd := &cobra.Command{
		Use:   "fork RUN --at TIME --future NAME=VALUE,...",
		Short: "Replay one past and several futures",
		Long: `Replay up to an instant once, and from there on several times: as it was, and
with other settings. Each future is what replay trace --change gives.

RUN is a directory made with --out, whose command is run again, or a trace with
the flags of replay trace. TIME is of the replay's clock, which begins at 0:00.`,
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
		fs.Var(&f.at, "at", "`time` of the replay's clock at which the futures part: ms, with a unit, as 90s or 10m, or hours and minutes, as 17:05")
		fs.StringArrayVar(&f.futures, "future", nil, "a future with other `settings`, as workers=10,router=p2c; may be given again")
		fs.StringArrayVar(&f.set, "set", nil, "a `setting` of all futures, as workers=10; without --future and --grid the only one")
		fs.StringArrayVar(&f.grid, "grid", nil, "futures of all combinations of the `values` of settings, as router=kv,p2c")
		cli.BindForm(fs, &f.form)
		fs.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "futures at once, a `number`; the table does not depend on it")
	}, "at", "future", "set", "grid", "output"))
	return cmd
}

// run forks what the command line names.
func (f *forkFlags) run(ctx context.Context, s cli.Streams, cmd *cobra.Command, args []string) error {
	if !cmd.Flags().Changed("at") {
		return cli.Usagef("no --at: want the time at which the futures part, as --at 30m")
	}
	if f.jobs < 1 {
		return cli.Usagef("--jobs=%d: want at least 1", f.jobs)
	}
	futures, err := f.listFutures()
	if err != nil {
		return err
	}
	o, spec, err := f.readRun(cmd, args)
	if err != nil {
		return err
	}
	t := forkTable{At: f.at.At, at: f.at.String(), Futures: []future{{Name: asItWas}}}
	for _, settings := range futures {
		c, err := o.ChangeOf(&spec, f.at.At, settings)
		if err != nil {
			return err
		}
		spec.Possible = append(spec.Possible, c)
		t.Futures = append(t.Futures, future{Name: nameOf(settings)})
	}
	for _, warning := range spec.Warnings() {
		fmt.Fprintf(s.Err, "replay: warning: %s\n", warning)
	}
	cli.ManyReplays()
	if err := f.replayAll(ctx, s, &spec, &t); err != nil {
		return ExplainError(err)
	}
	if t.Futures[0].After.Requests == 0 {
		fmt.Fprintf(s.Err, "replay: warning: --at=%s: no request arrives after it, so that futures differ in what is under way alone\n", t.at)
	}
	if f.form.Value == "json" {
		return cli.WriteJSON(s.Out, &t)
	}
	return t.write(s.Out)
}

// readRun returns what is to be forked: what a run directory was made by, or what the flags say.
func (f *forkFlags) readRun(cmd *cobra.Command, args []string) (*options.Options, replay.Spec, error) {
	mode := loadgen.Trace
	if f.o.Changed("max-in-flight") {
		mode = loadgen.Concurrency
	}
	if len(args) != 1 {
		spec, err := f.o.SpecOf(args, mode)
		return f.o, spec, err
	}
	if _, err := os.Stat(filepath.Join(args[0], rundir.RunFile)); err != nil {
		spec, err := f.o.SpecOf(args, mode)
		return f.o, spec, err
	}
	own := map[string]bool{"at": true, "future": true, "set": true, "grid": true, "output": true, "jobs": true}
	var other string
	cmd.Flags().Visit(func(x *pflag.Flag) {
		if !own[x.Name] {
			other = x.Name
		}
	})
	if other != "" {
		return nil, replay.Spec{}, cli.Usagef("--%s: a recorded run has its own flags, want it in --set or in --future", other)
	}
	return readRecorded(args[0])
}

// readRecorded returns the options and the spec of a recorded run. Its inputs must be what they were.
func readRecorded(dir string) (*options.Options, replay.Spec, error) {
	recorded, err := rundir.Open(dir)
	if err != nil {
		return nil, replay.Spec{}, err
	}
	for _, in := range recorded.Inputs {
		now, err := rundir.HashFile(in.Role, in.Path)
		if err != nil {
			return nil, replay.Spec{}, fmt.Errorf("%s: %w", dir, err)
		}
		if now.SHA256 != in.SHA256 {
			return nil, replay.Spec{}, fmt.Errorf("%s: %s is another than when the run was recorded", dir, in.Path)
		}
	}
	mode, known := map[string]loadgen.Mode{"trace": loadgen.Trace, "concurrency": loadgen.Concurrency}[strings.Join(recorded.Command[:min(1, len(recorded.Command))], "")]
	if !known {
		return nil, replay.Spec{}, fmt.Errorf("%s: recorded by replay %s, want a run of replay trace or replay concurrency", dir, strings.Join(recorded.Command, " "))
	}
	o, cmd := &options.Options{}, &cobra.Command{}
	o.Bind(cmd)
	if err := cmd.ParseFlags(recorded.Command[1:]); err != nil {
		return nil, replay.Spec{}, fmt.Errorf("%s: %w", dir, err)
	}
	spec, err := o.SpecOf(cmd.Flags().Args(), mode)
	return o, spec, err
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
			return nil, cli.Usagef("--grid: %d futures, want at most %d", g.Size(), mostFutures)
		}
		for _, c := range g.Cells() {
			futures = append(futures, c.Settings)
		}
	}
	if len(futures) == 0 && len(base) > 0 {
		futures = append(futures, base)
	}
	if len(futures) == 0 {
		return nil, cli.Usagef("no future: want --future, --set or --grid, as --set workers=10")
	}
	return futures, nil
}

// replayAll replays the past, and then each future on a copy of it.
func (f *forkFlags) replayAll(ctx context.Context, s cli.Streams, spec *replay.Spec, t *forkTable) error {
	w, err := spec.Open(ctx, replay.Streams{Stdin: s.In, Warn: func(text string) { fmt.Fprintf(s.Err, "replay: warning: %s\n", text) }})
	if err != nil {
		return err
	}
	past, err := spec.Fork(ctx, w)
	if err != nil {
		return err
	}
	if err := past.AdvanceTo(ctx, f.at.At); err != nil {
		return err
	}
	bar := cli.NewProgress(s.Err, "futures")
	defer bar.Clear()
	var wg sync.WaitGroup
	seats, errs := make(chan struct{}, f.jobs), make([]error, len(t.Futures))
	for i := len(t.Futures) - 1; i >= 0; i-- {
		seats <- struct{}{}
		own := past
		if i > 0 { // the last goes on with the original
			if own, err = past.Copy(); err == nil {
				err = own.Change(spec.Possible[i-1])
			}
		}
		if err != nil {
			errs[i] = err
			break
		}
		wg.Go(func() {
			facts, err := own.End(ctx)
			if errs[i] = err; err == nil {
				t.Futures[i].fill(facts.Records(), t.At)
			}
			<-seats
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}
