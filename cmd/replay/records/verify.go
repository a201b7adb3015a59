package records

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/report/rundir"
)

// NewVerifyCommand derives again what a run directory says of itself.
func NewVerifyCommand(s cli.Streams) *cobra.Command {
	quiet := false
	cmd := &cobra.Command{
		Use:   "verify DIR...",
		Short: "Check that the files of a recorded run belong together",
		Long: `Derive the digest of a run that was recorded with --out again from its files,
and compare files, inputs and report with what was recorded. Nothing is run.
Inputs that are not there any more are passed over.`,
		Example: `  replay verify out/a`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no run: want a directory made with --out")
			}
			wrong := 0
			for _, dir := range args {
				n, err := verifyRun(s, dir, quiet)
				if err != nil {
					return err
				}
				wrong += n
			}
			if wrong > 0 {
				return cli.Coded(cli.ExitBehaviour, "%d of what was recorded does not hold", wrong)
			}
			return nil
		},
	}
	cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		fs.BoolVar(&quiet, "quiet", false, "say only what differs")
	})
	return cmd
}

// verifyRun prints what was found in one directory, and how much of it is wrong.
func verifyRun(s cli.Streams, dir string, quiet bool) (wrong int, err error) {
	found, err := rundir.Verify(dir)
	if err != nil {
		return 0, err
	}
	for _, f := range found {
		line := ""
		switch {
		case f.Differs != "":
			wrong++
			line = "differs: " + f.What + " " + f.Differs
		case f.Note != "":
			line = "passed over: " + f.What + ": " + f.Note
		default:
			line = "holds: " + f.What
		}
		if quiet && f.Differs == "" {
			continue
		}
		if _, err := fmt.Fprintf(s.Out, "%s: %s\n", dir, line); err != nil {
			return wrong, err
		}
	}
	return wrong, nil
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
