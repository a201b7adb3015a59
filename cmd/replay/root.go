package main

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/loadgen"
)

// newRootCommand is the whole program. Without a subcommand it takes the command
// lines of the reference.
func newRootCommand(s streams) *cobra.Command {
	o := &options{reference: true}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Simulate LLM inference clusters on recorded or synthetic workloads",
		Long: `Replay simulates clusters of LLM inference engines: their schedulers, their KV
caches and the router in front of them, in logical time. The same command gives
the same report, to the last digit.

Without a subcommand, replay takes the command lines of the reference it repeats
(dynamo.replay), as docs/reference-cli.md lists them.`,
		Example: `  replay trace requests.jsonl --workers 8 --router kv
  replay concurrency requests.jsonl.gz --max-in-flight 64 --output json
  replay trace --input-tokens 4000 --output-tokens 200 --request-count 1000`,
		Version:                    version(),
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		SilenceErrors:              true,
		SilenceUsage:               true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && cmd.Flags().NFlag() == 0 {
				return usagef("no command: want replay trace or replay concurrency; replay --help says more")
			}
			if err := misspelled(cmd, args); err != nil {
				return err
			}
			file, err := trace(args)
			if err != nil {
				return err
			}
			spec, err := o.spec(file, loadgen.Trace)
			if err != nil {
				return err
			}
			return o.replay(cmd.Context(), s, spec)
		},
	}
	o.bind(cmd)
	cmd.SetVersionTemplate("replay {{.Version}}\n")
	cmd.AddCommand(newTraceCommand(s), newConcurrencyCommand(s), newPlanCommand(s), newSweepCommand(s), newReportCommand(s), newDiffCommand(s), newCheckCommand(s), newVerifyCommand(s), newExplainCommand(s), newBoundsCommand(s))
	cmd.AddCommand(newTracesCommand(s), newGenerateCommand(s), newCalibrateCommand(s), newStackCommand(s), newWorkerCommand(s), newFrontendCommand(s))
	cmd.AddCommand(newKVTailCommand(s), newConformanceCommand(s))
	return cmd
}

// misspelled is an error when the first of args is no file and nearly a command.
func misspelled(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := cmd.SuggestionsFor(args[0])
	if _, err := os.Stat(args[0]); err == nil || len(near) == 0 {
		return nil
	}
	return usagef("%s: neither a command nor a file, want %s", args[0], either(near))
}

// version is that of the module, or of the commit it was built from.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := build.Main.Version
	if v == "" {
		v = "(devel)"
	}
	return v + " " + build.GoVersion
}
