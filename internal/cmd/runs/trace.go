package runs

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/loadgen"
)

// workloadHelp describes the sources of requests in the help of commands that replay.
const workloadHelp = `FILE is a trace in any format of docs/traces.md, plain or compressed; - is
standard input. Without FILE, flags describe a synthetic workload, or generate a
workload with the flags of replay generate, as --generate-rate 5.`

// NewTraceCommand returns the command trace, which replays a workload in open loop.
func NewTraceCommand(s cli.Streams, onProcesses Cluster) *cobra.Command {
	return newRunCommand(s, onProcesses, loadgen.Trace, &cobra.Command{
		Use:   "trace [FILE]",
		Short: "Replay a workload in open loop: requests at its arrival times",
		Long: `Replay a workload in open loop: requests arrive at the times of the trace,
however busy the cluster is.

` + workloadHelp,
		Example: `  replay trace requests.jsonl --workers 8 --router kv --num-gpu-blocks 4096
  replay trace requests.jsonl --gpu h100 --model llama-3.1-70b --tp 4
  replay trace requests.jsonl --prefill-workers 2 --decode-workers 4
  replay trace --input-tokens 4000 --output-tokens 200 --request-count 1000`,
	}, "max-in-flight")
}

// NewConcurrencyCommand returns the command concurrency, which replays a workload in closed loop.
func NewConcurrencyCommand(s cli.Streams, onProcesses Cluster) *cobra.Command {
	return newRunCommand(s, onProcesses, loadgen.Concurrency, &cobra.Command{
		Use:   "concurrency [FILE] --max-in-flight K",
		Short: "Replay a workload in closed loop: K requests in flight",
		Long: `Replay a workload in closed loop: the next request arrives when one of K in
flight completes. Arrival times are ignored; delays within a session are kept.

` + workloadHelp,
		Example: `  replay concurrency requests.jsonl --max-in-flight 64
  replay concurrency agents.jsonl --max-in-flight 8
  replay concurrency --max-in-flight 16 --input-tokens 4000 \
    --output-tokens 200 --request-count 1000`,
	}, "speedup", "arrival-interval-ms", "regret", "regret-sample", "regret-horizon")
}

// newRunCommand configures cmd as a command that replays a workload in the given mode. newRunCommand hides the flags
// that have no effect in this mode from the help.
func newRunCommand(s cli.Streams, onProcesses Cluster, mode loadgen.Mode, cmd *cobra.Command, hidden ...string) *cobra.Command {
	o := &options.Options{}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec, err := o.SpecOf(args, mode)
		if err := cmp.Or(err, o.CheckLeast(0, "threads")); err != nil {
			return err
		}
		if warning := o.WarnInterval(); warning != "" && mode == loadgen.Trace {
			s.Warn(warning)
		}
		return Run(cmd.Context(), s, o, spec, onProcesses)
	}
	o.Bind(cmd)
	cli.Hide(cmd.Flags(), hidden...)
	return cmd
}

// BindReference configures cmd to accept command lines of the reference.
func BindReference(cmd *cobra.Command, s cli.Streams, onProcesses Cluster) {
	o := &options.Options{}
	o.Reference = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && cmd.Flags().NFlag() == 0 {
			return cli.Usagef("no command: must be replay trace or replay concurrency; replay --help lists more")
		}
		if err := cli.CheckSpelling(cmd, args); err != nil {
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

// OnlyReference reports whether args is a command line of the reference: it begins with a flag or a file and contains
// no command and no help flag.
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
