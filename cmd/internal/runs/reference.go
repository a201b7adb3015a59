package runs

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/loadgen"
)

// BindReference makes cmd take the command lines of the reference.
func BindReference(cmd *cobra.Command, s cli.Streams, onProcesses Cluster) {
	o := &options.Options{Reference: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && cmd.Flags().NFlag() == 0 {
			return cli.Usagef("no command: want replay trace or replay concurrency; replay --help says more")
		}
		if err := checkSpelling(cmd, args); err != nil {
			return err
		}
		spec, err := o.SpecOf(args, loadgen.Trace)
		if err != nil {
			return err
		}
		return Run(cmd.Context(), s, o, spec, onProcesses)
	}
	o.Bind(cmd)
}

// OnlyReference reports whether args want no command and no word about commands:
// they begin with a flag or a file, as the reference's do.
func OnlyReference(args []string, all []cli.Subcommand) bool {
	if len(args) == 0 {
		return false
	}
	if _, err := os.Stat(args[0]); err != nil && !strings.HasPrefix(args[0], "-") {
		return false
	}
	return !slices.ContainsFunc(args, func(arg string) bool {
		return arg == "-h" || strings.HasPrefix(arg, "--help") || arg == "help" || arg == "completion" ||
			slices.ContainsFunc(all, func(c cli.Subcommand) bool { return c.Name == arg })
	})
}

// checkSpelling is an error when the first of args is no file and nearly a command.
func checkSpelling(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := cmd.SuggestionsFor(args[0])
	if _, err := os.Stat(args[0]); err == nil || len(near) == 0 {
		return nil
	}
	return cli.Usagef("%s: neither a command nor a file, want %s", args[0], cli.Either(near))
}
