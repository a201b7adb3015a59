package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/report/diff"
)

// newDiffCommand compares two recorded runs.
func newDiffCommand(s streams) *cobra.Command {
	var o diff.Options
	asJSON, rerun := false, true
	cmd := &cobra.Command{
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
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return usagef("%d runs: want two, each a directory made with --out or a report file", len(args))
			case !(o.Tolerance >= 0 && o.Tolerance < 1):
				return usagef("--tolerance=%v: want 0 or more, below 1", o.Tolerance)
			case o.Top < 0:
				return usagef("--top=%d: want at least 0", o.Top)
			}
			a, err := diff.Load(args[0])
			if err != nil {
				return err
			}
			b, err := diff.Load(args[1])
			if err != nil {
				return err
			}
			d := diff.Compare(a, b, o)
			if d.Parts() {
				if err := findPass(cmd.Context(), d, a, b, rerun); err != nil {
					return err
				}
			}
			if asJSON {
				err = d.WriteJSON(s.out)
			} else {
				err = d.WriteText(s.out)
			}
			if err == nil && !d.Same {
				return &codedError{code: exitDiffer} // the output says it
			}
			return err
		},
	}
	ownUsage(cmd, func(fs *pflag.FlagSet) {
		fs.BoolVar(&asJSON, "json", false, "print the differences as JSON")
		fs.IntVar(&o.Top, "top", 10, "`number` of requests to list, those that moved most")
		fs.BoolVar(&rerun, "rerun", true, "run again what has no passes recorded, to find the first that differs")
		fs.Float64Var(&o.Tolerance, "tolerance", 0, "`share` by which values may differ and count as the same")
	})
	return cmd
}
