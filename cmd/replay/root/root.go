package root

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/cmd/replay/calibrations"
	"github.com/replay-llm/replay/cmd/replay/ceilings"
	"github.com/replay-llm/replay/cmd/replay/machines"
	"github.com/replay-llm/replay/cmd/replay/plans"
	"github.com/replay-llm/replay/cmd/replay/policies"
	"github.com/replay-llm/replay/cmd/replay/records"
	"github.com/replay-llm/replay/cmd/replay/schemas"
	"github.com/replay-llm/replay/cmd/replay/traces"
	"github.com/replay-llm/replay/cmd/replay/ui"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/cmd/sessions"
	"github.com/replay-llm/replay/internal/cmd/sweeps"
	"github.com/replay-llm/replay/internal/cmd/version"
)

// New returns the program replay with all its commands, or only with the commands that args can name.
func New(s cli.Streams, args []string) *cobra.Command {
	all := listCommands()
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

// listCommands returns all commands by task. The three most used commands come first.
func listCommands() []cli.Subcommand {
	var served, servers []cli.Subcommand
	for _, c := range cli.LiveCommands() {
		served = append(served, cli.NewSubcommand(c.Name, func(s cli.Streams) *cobra.Command { return c.HandedOver(s) }))
	}
	for _, c := range cli.ServerCommands() {
		servers = append(servers, cli.NewSubcommand(c.Name, func(s cli.Streams) *cobra.Command { return c.HandedOver(s) }))
	}
	ours := slices.Concat(
		cli.ForJob("Plan what fits, and how many GPUs it takes",
			cli.NewSubcommand("plan", plans.NewPlanCommand), cli.NewSubcommand("fit", machines.NewFitCommand),
			cli.NewSubcommand("gpus", machines.NewGPUsCommand), cli.NewSubcommand("models", machines.NewModelsCommand), cli.NewSubcommand("settings", machines.NewSettingsCommand),
			cli.NewSubcommand("init", machines.NewInitCommand), cli.NewSubcommand("calibrate", calibrations.NewCalibrateCommand), cli.NewSubcommand("validate", calibrations.NewValidateCommand)),
		cli.ForJob("Replay and compare",
			cli.NewSubcommand("trace", func(s cli.Streams) *cobra.Command { return runs.NewTraceCommand(s, nil) }),
			cli.NewSubcommand("concurrency", func(s cli.Streams) *cobra.Command { return runs.NewConcurrencyCommand(s, nil) }),
			cli.NewSubcommand("ui", ui.NewUICommand),
			cli.NewSubcommand("sweep", sweeps.NewSweepCommand),
			cli.NewSubcommand("fork", runs.NewForkCommand),
			cli.NewSubcommand("diff", records.NewDiffCommand), cli.NewSubcommand("bounds", ceilings.NewBoundsCommand),
			cli.NewSubcommand("policies", policies.NewPoliciesCommand), cli.NewSubcommand("schema", schemas.NewSchemaCommand)),
		cli.ForJob("Gate a change, and inspect recorded runs",
			cli.NewSubcommand("check", records.NewCheckCommand), cli.NewSubcommand("report", records.NewReportCommand),
			cli.NewSubcommand("explain", records.NewExplainCommand), cli.NewSubcommand("verify", records.NewVerifyCommand)),
		cli.ForJob("Traces", cli.NewSubcommand("doctor", traces.NewDoctorCommand), cli.NewSubcommand("traces", traces.NewTracesCommand), cli.NewSubcommand("generate", traces.NewGenerateCommand)))
	return slices.Concat(cli.WithVerbosity(ours),
		cli.ForJob("Real servers (by replay-live)", servers...),
		cli.ForJob("Served engines (by replay-live)", served...),
		[]cli.Subcommand{version.Subcommand("replay"), cli.NewSubcommand("session", sessions.NewSessionCommand)})
}

// newBareCommand returns the program without commands.
func newBareCommand() *cobra.Command {
	return cli.NewProgram(&cobra.Command{
		Use:   "replay",
		Short: "Simulate LLM inference clusters on recorded or synthetic workloads",
		Long: `Replay simulates clusters of LLM inference engines: their schedulers, their KV
caches and the router in front of them, in logical time. The same command gives
the same report, to the last digit.

Without a subcommand, replay accepts the command lines of dynamo.replay
(docs/coming-from.md lists them).

Each flag has an environment variable, REPLAY_WORKERS for --workers; the flag
overrides it. All commands accept -q (quiet) and -v (verbose).`,
		Example: `  replay plan requests.jsonl --gpu h100 --model llama-3.1-8b --slo p99:ttft=2s
  replay trace requests.jsonl --workers 8 --router kv --out out/kv
  replay diff out/rr out/kv
  replay check budgets.yaml`,
		Args: cobra.ArbitraryArgs,
	})
}
