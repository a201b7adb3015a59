package root

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/cmd/version"
	"github.com/replay-llm/replay/live/cmd/replay-live/clusterrun"
	"github.com/replay-llm/replay/live/cmd/replay-live/serve"
	"github.com/replay-llm/replay/live/cmd/replay-live/servers"
)

// New returns the command of replay-live with the subcommands that args may need.
func New(s cli.Streams, args []string) *cobra.Command {
	all := slices.Concat(cli.ForJob("Replay",
		cli.NewSubcommand("trace", func(s cli.Streams) *cobra.Command { return runs.NewTraceCommand(s, clusterrun.Run) }),
		cli.NewSubcommand("concurrency", func(s cli.Streams) *cobra.Command { return runs.NewConcurrencyCommand(s, clusterrun.Run) }),
	), cli.ForJob("Real servers", cli.NewSubcommand("record", servers.NewRecordCommand), cli.NewSubcommand("drive", servers.NewDriveCommand)), cli.ForJob("Served engines",
		cli.NewSubcommand("stack", serve.NewStackCommand), cli.NewSubcommand("worker", serve.NewWorkerCommand), cli.NewSubcommand("frontend", serve.NewFrontendCommand), cli.NewSubcommand("vllm", serve.NewVLLMCommand), cli.NewSubcommand("sglang", serve.NewSGLangCommand),
		cli.NewSubcommand("kv-tail", serve.NewKVTailCommand), cli.NewSubcommand("conformance", serve.NewConformanceCommand),
	), []cli.Subcommand{version.Subcommand("replay-live")})
	cmd := cli.NewProgram(&cobra.Command{
		Use:   "replay-live",
		Short: "Serve simulated LLM inference engines, and replay workloads on them",
		Long: `Replay-live is the part of replay that talks to other processes: workers that
serve simulated engines, their servers, and replays on several processes. If
both programs are installed, use replay: it starts replay-live when needed.

Each flag has an environment variable, REPLAY_WORKERS for --workers; the flag
overrides it.`,
		Example: `  replay-live stack up
  replay-live trace requests.jsonl --mode cluster --spawn 4`,
		Args: cobra.ArbitraryArgs,
	})
	if cli.AddWanted(cmd, s, args, all) {
		return cmd
	}
	runs.BindReference(cmd, s, clusterrun.Run)
	if runs.OnlyReference(args, all) {
		return cmd
	}
	cli.AddAll(cmd, s, all)
	return cmd
}
