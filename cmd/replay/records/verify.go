package records

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/report/rundir"
)

// NewVerifyCommand returns the command verify, which checks the files of a run directory.
func NewVerifyCommand(s cli.Streams) *cobra.Command {
	var v verification
	cmd := &cobra.Command{
		Use:   "verify DIR...",
		Short: "Check that the files of a recorded run belong together",
		Long: `Compute the digest of a recorded run again from its files, and compare files,
inputs and report with the record. Nothing is replayed. Missing input files are
skipped.`,
		Example: `  replay verify out/a`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no run: must be a directory made with --out")
			}
			return v.verifyRuns(s.Out, args)
		},
	}
	cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		fs.BoolVarP(&v.quiet, "quiet", "q", false, "print only differences")
		cli.BindForm(fs, &v.form)
	})
	return cmd
}

// verification holds the findings in run directories, and the output options.
type verification struct {
	quiet bool
	form  cli.Choice
	Runs  []verified `json:"runs"`
	Wrong int        `json:"wrong"` // how much of it does not hold
}

// verified is the findings in one directory.
type verified struct {
	Dir      string    `json:"dir"`
	Findings []finding `json:"findings"`
}

// finding is the result for one file, input or value.
type finding struct {
	What    string `json:"what"`
	Verdict string `json:"verdict"` // holds, differs or passed over
	Reason  string `json:"reason"`
}

// verifyRuns checks all directories and prints the findings.
func (v *verification) verifyRuns(out io.Writer, dirs []string) error {
	for _, dir := range dirs {
		found, err := v.verifyRun(dir)
		if err != nil {
			return err
		}
		if v.Runs = append(v.Runs, found); v.form.Value == "json" {
			continue
		}
		for _, f := range found.Findings {
			if _, err := fmt.Fprintf(out, "%s: %s\n", dir, f); err != nil {
				return err
			}
		}
	}
	if v.form.Value == "json" {
		if err := cli.WriteJSON(out, v); err != nil {
			return err
		}
	}
	if v.Wrong > 0 {
		return cli.Coded(cli.ExitBehaviour, "%d of what was recorded does not hold", v.Wrong)
	}
	return nil
}

// verifyRun returns the findings in one directory.
func (v *verification) verifyRun(dir string) (verified, error) {
	all := verified{dir, []finding{}}
	found, err := rundir.Verify(dir)
	for _, f := range found {
		switch {
		case f.Differs != "":
			v.Wrong++
			all.Findings = append(all.Findings, finding{f.What, "differs", f.Differs})
		case v.quiet:
		case f.Note != "":
			all.Findings = append(all.Findings, finding{f.What, "passed over", f.Note})
		default:
			all.Findings = append(all.Findings, finding{f.What, "holds", ""})
		}
	}
	return all, err
}

// String returns the finding as text.
func (f finding) String() string {
	switch f.Verdict {
	case "differs":
		return "differs: " + f.What + " " + f.Reason
	case "holds":
		return "holds: " + f.What
	default:
		return f.Verdict + ": " + f.What + ": " + f.Reason
	}
}
