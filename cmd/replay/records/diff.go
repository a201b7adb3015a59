package records

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/passes"
)

// diffFlags are the flags of replay diff.
type diffFlags struct {
	diff.Options
	json, rerun bool
}

// NewDiffCommand compares two recorded runs.
func NewDiffCommand(s cli.Streams) *cobra.Command {
	f := &diffFlags{}
	return cli.BindOwn(&cobra.Command{
		Use:   "diff A B",
		Short: "Say in what two recorded runs differ",
		Long: `Compare two runs: which settings and values differ and by how much, which requests
moved, the first instant at which something else happened to one, and the first
pass at which the schedules part. A and B are directories made with --out, or
report files, also those of the reference; of a report file only the values are
compared. A run without --passes is run again, from the same place, to see its
passes; that its inputs and results are still the same is checked.

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
	fs.BoolVar(&f.json, "json", false, "print the differences as JSON")
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
	if f.json {
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
