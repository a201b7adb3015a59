package main

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/loadgen"
)

// subcommand is a command of the program, made when it is wanted.
type subcommand struct {
	name string
	make func(streams) *cobra.Command
}

// subcommands are all of them.
func subcommands() []subcommand {
	return append([]subcommand{
		{"trace", newTraceCommand}, {"concurrency", newConcurrencyCommand},
		{"plan", newPlanCommand}, {"sweep", newSweepCommand},
		{"report", newReportCommand}, {"diff", newDiffCommand}, {"check", newCheckCommand},
		{"verify", newVerifyCommand}, {"explain", newExplainCommand}, {"bounds", newBoundsCommand},
		{"traces", newTracesCommand}, {"generate", newGenerateCommand}, {"calibrate", newCalibrateCommand},
	}, networkCommands()...)
}

// newRootCommand is the program, or what of it args can want: the flags of all
// commands take more time and memory than a short replay.
func newRootCommand(s streams, args []string) *cobra.Command {
	cmd := newBareCommand()
	all := subcommands()
	for _, c := range all {
		if len(args) > 0 && args[0] == c.name {
			cmd.AddCommand(c.make(s))
			return cmd
		}
	}
	bindReference(cmd, s)
	if onlyReference(args, all) {
		return cmd
	}
	for _, c := range all {
		cmd.AddCommand(c.make(s))
	}
	return cmd
}

// onlyReference says that args want no command and no word about commands: they
// begin with a flag or a file, as the reference's do.
func onlyReference(args []string, all []subcommand) bool {
	if len(args) == 0 {
		return false
	}
	if _, err := os.Stat(args[0]); err != nil && !strings.HasPrefix(args[0], "-") {
		return false
	}
	return !slices.ContainsFunc(args, func(arg string) bool {
		return arg == "-h" || strings.HasPrefix(arg, "--help") || arg == "help" || arg == "completion" ||
			slices.ContainsFunc(all, func(c subcommand) bool { return c.name == arg })
	})
}

// newBareCommand is the program without a command in it.
func newBareCommand() *cobra.Command {
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
	}
	cmd.SetVersionTemplate("replay {{.Version}}\n")
	return cmd
}

// bindReference makes cmd take the command lines of the reference.
func bindReference(cmd *cobra.Command, s streams) {
	o := &options{reference: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
	}
	o.bind(cmd)
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
