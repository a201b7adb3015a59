package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/rundir"
)

// diffFlags are the flags of replay diff.
type diffFlags struct {
	diff.Options
	form  cli.Choice
	rerun bool
}

// NewDiffCommand compares two recorded runs.
func NewDiffCommand(s cli.Streams) *cobra.Command {
	f := &diffFlags{}
	return cli.BindOwn(&cobra.Command{
		Use:   "diff A B",
		Short: "Say in what two recorded runs differ",
		Long: `Compare two runs: which settings and values differ and by how much, which
requests moved, the first instant at which something else happened to one, and
the first pass at which the schedules part. Latencies are compared request by
request: the change of means and p99s with a 95 % interval, and whether B wins,
loses or ties. A and B are directories made with --out, or report files, also
those of the reference; of a report file only the values are compared. A run
without --passes is run again, from the same place, to see its passes; that its
inputs and results are still the same is checked.

The exit code is 0 when the runs are the same and 3 when they differ. Settings
and real times do not count for that.`,
		Example: `  replay diff out/a out/b
  replay diff out/a reference.json --tolerance 1e-12`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return cli.Usagef("%d runs: want two, each a directory made with --out or a report file", len(args))
			case !(f.Tolerance >= 0 && f.Tolerance < 1):
				return cli.Usagef("--tolerance=%v: want 0 or more, below 1", f.Tolerance)
			case f.Top < 0:
				return cli.Usagef("--top=%d: want at least 0", f.Top)
			}
			return f.run(cmd.Context(), s, args[0], args[1])
		},
	}, f.bindFlags)
}

func (f *diffFlags) bindFlags(fs *pflag.FlagSet) {
	cli.BindForm(fs, &f.form)
	cli.BindOldJSON(fs, &f.form)
	fs.IntVar(&f.Top, "top", 10, "`number` of requests to list, those that moved most")
	fs.BoolVar(&f.rerun, "rerun", true, "run again what has no passes recorded, to find the first that differs")
	fs.Float64Var(&f.Tolerance, "tolerance", 0, "`share` by which values may differ and count as the same")
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
	write := d.WriteText
	if f.form.Value == "json" {
		write = d.WriteJSON
	}
	if err := write(s.Out); err != nil {
		return err
	}
	if !d.Same {
		return cli.ExitWith(cli.ExitDiffer) // the output says it
	}
	return nil
}

// findPass looks for the first pass at which the schedules of two runs part. A
// run that has no passes recorded is run again, unless rerun is nil.
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

// cannotError is why a run cannot be run again.
type cannotError struct{ text string }

func (e *cannotError) Error() string { return e.text }

func cannotRun(format string, args ...any) error { return &cannotError{fmt.Sprintf(format, args...)} }

// runAgain runs the command of a recorded run again, and returns its passes if it
// gives the same.
func runAgain(ctx context.Context, s cli.Streams, side *diff.Side) (all []passes.Pass, err error) {
	run := side.Run
	if slices.ContainsFunc(run.Inputs, func(in rundir.Input) bool { return in.Path == "-" }) {
		return nil, cannotRun("%s: it read standard input, and has no passes recorded", side.Name)
	}
	if err := run.CheckInputs(); err != nil {
		return nil, cannotRun("%s: %v", side.Name, err)
	}
	temporary, err := os.MkdirTemp("", "replay-diff-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	dir := filepath.Join(temporary, "run")
	quiet := cli.Streams{Program: s.Program, In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Args: run.Command, Again: dir}
	if err := quiet.Execute(ctx, run.Command); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, cannotRun("%s: its command does not run any more: %v", side.Name, err)
	}
	again, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	if again.Lifecycles != run.Lifecycles {
		return nil, cannotRun("%s: its command gives another run now, by %s", side.Name, cli.Version())
	}
	return passes.ReadFile(filepath.Join(dir, passes.FileName))
}
