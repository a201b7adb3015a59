package main

import (
	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/loadgen"
)

// workloadHelp says in the help of commands that replay where requests come from.
const workloadHelp = `FILE is a trace in any format of docs/traces.md, plain or packed with gzip or zstd;
- is standard input. Without FILE, --input-tokens, --output-tokens and
--request-count describe a synthetic workload; the flags of replay generate, with
generate- before their names, describe a generated one: --generate-rate 5
--generate-requests 1000 --generate-input lognormal:mean=1000,sigma=0.8
--generate-output 200.`

// newTraceCommand replays a workload at its own times.
func newTraceCommand(s streams) *cobra.Command {
	return newRunCommand(s, loadgen.Trace, &cobra.Command{
		Use:   "trace [FILE]",
		Short: "Let requests arrive at the times of the workload",
		Long: `Replay a workload in open loop: requests arrive when the trace says, however busy
the cluster is.

` + workloadHelp,
		Example: `  replay trace requests.jsonl
  replay trace requests.jsonl --workers 8 --router kv --num-gpu-blocks 4096
  replay trace requests.jsonl --speedup 2 --report-json report.json
  replay trace requests.jsonl --prefill-workers 2 --decode-workers 4 --decode-num-gpu-blocks 9000
  replay trace requests.jsonl --workers 4 --scale events.yaml --until 10m
  replay trace --input-tokens 4000 --output-tokens 200 --request-count 1000 \
    --arrival-interval-ms 50`,
	}, "max-in-flight")
}

// newRunCommand makes cmd one that replays a workload in the given mode, with
// the flags that mean nothing there left out of the help.
func newRunCommand(s streams, mode loadgen.Mode, cmd *cobra.Command, hidden ...string) *cobra.Command {
	o := &options{}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := trace(args)
		if err != nil {
			return err
		}
		spec, err := o.spec(file, mode)
		if err != nil {
			return err
		}
		return o.replay(cmd.Context(), s, spec)
	}
	o.bind(cmd)
	hide(cmd, hidden...)
	return cmd
}
