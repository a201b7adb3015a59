package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
)

// diffFlags are the flags of replay diff.
type diffFlags struct {
	diff.Options
	form  cli.Choice
	html  string // a page; "": none
	rerun bool
	// repeat is the number of seeds with which both runs are replayed; 0: none.
	repeat int
}

// NewDiffCommand returns the command diff, which compares two recorded runs.
func NewDiffCommand(s cli.Streams) *cobra.Command {
	f := &diffFlags{}
	return cli.BindOwn(&cobra.Command{
		Use:   "diff A B",
		Short: "Compare two recorded runs",
		Long: `Compare two runs. The output lists the settings and values that differ, the
requests that changed workers or times, the first difference in the events of a
request, and the first pass that differs.

Latencies are compared request by request: the change of means and p99s with a
95 % confidence interval, and whether B wins, loses or ties. If a router draws
workers at random, a verdict requires --repeat, which replays both runs with
several seeds.

A and B are directories made with --out, or report files, also of dynamo.replay;
of report files only the values are compared. A run without --passes is run
again, and its inputs and results are compared with the record.

The exit code is 0 if the runs are equal, and 3 if they differ. Settings and
wall times do not count as differences.`,
		Example: `  replay diff out/a out/b
  replay diff out/a out/b --html diff.html
  replay diff out/a reference.json --tolerance 1e-12`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return cli.Usagef("%d runs: expected two, each a directory made with --out or a report file", len(args))
			case !(f.Tolerance >= 0 && f.Tolerance < 1):
				return cli.Usagef("--tolerance=%v: must be 0 or more, below 1", f.Tolerance)
			case f.repeat < 0 || f.repeat == 1 || f.repeat > mostSeeds:
				return cli.Usagef("--repeat=%d: must be 2 to %d, or 0", f.repeat, mostSeeds)
			case f.Top < 0:
				return cli.Usagef("--top=%d: must be at least 0", f.Top)
			}
			return f.run(cmd.Context(), s, args[0], args[1])
		},
	}, f.bindFlags)
}

func (f *diffFlags) bindFlags(fs *pflag.FlagSet) {
	cli.BindForm(fs, &f.form)
	cli.BindOldJSON(fs, &f.form)
	fs.StringVar(&f.html, "html", "", "also write the comparison to `FILE`, as a web page")
	fs.IntVar(&f.Top, "top", 10, "`number` of requests to list, in the order of the largest change")
	fs.IntVar(&f.repeat, "repeat", 0, "replay both runs with `N` seeds, for confidence intervals over seeds; 0: confidence intervals over the requests of one run")
	fs.BoolVar(&f.rerun, "rerun", true, "replay a run again if its passes were not recorded, to find the first pass that differs")
	fs.Float64Var(&f.Tolerance, "tolerance", 0, "maximum relative `difference` of values that count as equal")
}

func (f *diffFlags) run(ctx context.Context, s cli.Streams, first, second string) error {
	a, err := diff.Load(first)
	if err != nil {
		return err
	}
	b, err := diff.Load(second)
	if err != nil {
		return err
	}
	d := diff.Compare(a, b, f.Options)
	if d.Parts() {
		var again func(*diff.Side) ([]passes.Pass, error)
		if f.rerun {
			again = func(side *diff.Side) ([]passes.Pass, error) { return runAgain(ctx, s, side) }
		}
		if err := findPass(d, a, b, again); err != nil {
			return err
		}
	}
	if f.repeat > 0 {
		if err := f.repeatSeeds(ctx, s, d, a, b); err != nil {
			return err
		}
	}
	if err := f.write(s, d, a, b); err != nil {
		return err
	}
	if !d.Same {
		return cli.ExitWith(cli.ExitDiffer) // the difference is printed
	}
	return nil
}

// write prints d, and the assumptions of both results.
func (f *diffFlags) write(s cli.Streams, d *diff.Diff, a, b *diff.Side) error {
	w := s.Out
	both := []runs.Assumed{{Name: "A", All: runs.AssumptionsOf(a.Report)}, {Name: "B", All: runs.AssumptionsOf(b.Report)}}
	if f.html != "" {
		page := makeDiffPage(d, both, cli.QuoteCommand(s.Args))
		if err := collector.WriteFile(f.html, func(w io.Writer) error { return html.WriteSheet(w, page) }); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if f.form.Value != "json" {
		return cmp.Or(d.WriteText(w), runs.PrintAssumptions(w, runs.MergeAssumptions("", both)))
	}
	for _, side := range both {
		if len(side.All) > 0 {
			if d.Assumptions == nil {
				d.Assumptions = map[string]map[string]string{}
			}
			d.Assumptions[strings.ToLower(side.Name)] = runs.AssumptionsByKey(side.All)
		}
	}
	return d.WriteJSON(w)
}

// mostSeeds bounds --repeat.
const mostSeeds = 1000

// repeatSeeds replays both runs with the same seeds.
func (f *diffFlags) repeatSeeds(ctx context.Context, s cli.Streams, d *diff.Diff, a, b *diff.Side) error {
	if d.Requests == nil || d.Requests.Paired == nil {
		return cli.Usagef("--repeat: requires two directories made with --out in which requests differ")
	}
	seeds := make([][2][]requests.Row, f.repeat)
	bar := cli.NewProgress(s.Err, "replays")
	defer bar.Clear()
	for k := range seeds {
		for i, side := range []*diff.Side{a, b} {
			err := repeatRun(ctx, s, side, []string{"--seed", strconv.Itoa(k + 1)}, func(again *rundir.Run, _ string) (err error) {
				seeds[k][i], err = again.Rows()
				return err
			})
			if err != nil {
				return err
			}
			bar.Show(2*k+i+1, 2*len(seeds))
		}
	}
	d.Requests.Paired.Repeat(seeds)
	return nil
}

// findPass finds the first pass that differs between two runs. A run without recorded passes is run again, unless
// rerun is nil.
func findPass(d *diff.Diff, a, b *diff.Side, rerun func(*diff.Side) ([]passes.Pass, error)) error {
	var found [2][]passes.Pass
	for i, side := range []*diff.Side{a, b} {
		all, err := side.Passes()
		if errors.Is(err, fs.ErrNotExist) {
			if rerun == nil {
				d.NoPass = side.Name + " has no passes recorded"
				return nil
			}
			all, err = rerun(side)
			var cannot *cannotError
			if errors.As(err, &cannot) {
				d.NoPass = err.Error()
				return nil
			}
		}
		if err != nil {
			return err
		}
		found[i] = all
	}
	d.FindPass(a, b, found[0], found[1])
	return nil
}

// cannotError is the reason why a run cannot be run again.
type cannotError struct{ text string }

func (e *cannotError) Error() string { return e.text }

func cannotRun(format string, args ...any) error { return &cannotError{fmt.Sprintf(format, args...)} }

// runAgain runs the command of a recorded run again. If the results are equal, runAgain returns the passes.
func runAgain(ctx context.Context, s cli.Streams, side *diff.Side) (all []passes.Pass, err error) {
	err = repeatRun(ctx, s, side, nil, func(again *rundir.Run, dir string) (err error) {
		if again.Lifecycles != side.Run.Lifecycles {
			return cannotRun("%s: its command gives another run now, by %s", side.Name, cli.Version())
		}
		all, err = passes.ReadFile(filepath.Join(dir, passes.FileName))
		return err
	})
	return all, err
}

// repeatRun runs the command of a recorded run again with more arguments, and calls show with the directory of the
// new run.
func repeatRun(ctx context.Context, s cli.Streams, side *diff.Side, more []string, show func(again *rundir.Run, dir string) error) (err error) {
	run := side.Run
	if slices.ContainsFunc(run.Inputs, func(in rundir.Input) bool { return in.Path == "-" }) {
		return cannotRun("%s: it read standard input, and has no passes recorded", side.Name)
	}
	if err := run.CheckInputs(); err != nil {
		return cannotRun("%s: %v", side.Name, err)
	}
	temporary, err := os.MkdirTemp("", "replay-diff-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	dir := filepath.Join(temporary, "run")
	args := slices.Concat(run.Command, more)
	quiet := cli.Streams{Program: s.Program, In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Args: args, Again: dir}
	if err := quiet.Execute(ctx, args); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return cannotRun("%s: its command does not run any more: %v", side.Name, err)
	}
	again, err := rundir.Open(dir)
	if err != nil {
		return err
	}
	return show(again, dir)
}
