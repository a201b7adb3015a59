package root

import (
	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/runs"
	"github.com/replay-llm/replay/cmd/internal/sweeps"
	"github.com/replay-llm/replay/cmd/replay/machines"
	"github.com/replay-llm/replay/cmd/replay/plans"
	"github.com/replay-llm/replay/cmd/replay/records"
	"github.com/replay-llm/replay/cmd/replay/traces"
)

// New makes the program that simulates, or what of it args can want.
func New(s cli.Streams, args []string) *cobra.Command {
	all := []cli.Subcommand{
		cli.NewSubcommand("trace", func(s cli.Streams) *cobra.Command { return runs.NewTraceCommand(s, nil) }),
		cli.NewSubcommand("concurrency", func(s cli.Streams) *cobra.Command { return runs.NewConcurrencyCommand(s, nil) }),
		cli.NewSubcommand("plan", plans.NewPlanCommand),
		cli.NewSubcommand("sweep", func(s cli.Streams) *cobra.Command { return sweeps.NewSweepCommand(s, queueCommands(s)...) }),
		cli.NewSubcommand("report", records.NewReportCommand), cli.NewSubcommand("diff", records.NewDiffCommand), cli.NewSubcommand("check", records.NewCheckCommand),
		cli.NewSubcommand("verify", records.NewVerifyCommand), cli.NewSubcommand("explain", records.NewExplainCommand), cli.NewSubcommand("bounds", plans.NewBoundsCommand),
		cli.NewSubcommand("init", machines.NewInitCommand), cli.NewSubcommand("fit", machines.NewFitCommand), cli.NewSubcommand("gpus", machines.NewGPUsCommand), cli.NewSubcommand("models", machines.NewModelsCommand),
		cli.NewSubcommand("traces", traces.NewTracesCommand), cli.NewSubcommand("generate", traces.NewGenerateCommand), cli.NewSubcommand("calibrate", plans.NewCalibrateCommand),
		cli.NewSubcommand("validate", plans.NewValidateCommand),
	}
	for _, c := range cli.LiveCommands() {
		all = append(all, cli.NewSubcommand(c.Name, func(s cli.Streams) *cobra.Command { return c.HandedOver(s) }))
	}
	cmd := newBareCommand()
	if cli.AddWanted(cmd, s, args, all) {
		return cmd
	}
	runs.BindReference(cmd, s, nil)
	if runs.OnlyReference(args, all) {
		return cmd
	}
	cli.AddAll(cmd, s, all)
	return cmd
}

// queueCommands are those of a sweep over several processes.
func queueCommands(s cli.Streams) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range cli.QueueVerbs() {
		all = append(all, c.HandedOver(s))
	}
	return all
}

// newBareCommand is the program without a command in it.
func newBareCommand() *cobra.Command {
	return cli.NewProgram(&cobra.Command{
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
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
	})
}
