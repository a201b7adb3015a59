package main

import (
	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/loadgen"
)

// newConcurrencyCommand replays a workload with a number of requests in flight.
func newConcurrencyCommand(s streams) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "concurrency [FILE] --max-in-flight K",
		Short: "Keep a number of requests in flight",
		Long: `Replay a workload in closed loop: the next request arrives when one of the K in
flight completes. Times of the trace do not count, delays within a session do.

FILE is a trace in any format of docs/traces.md, plain or packed with gzip or zstd;
- is standard input. What a file leaves open (lengths of texts, prefixes that it
does not tell), replay traces convert has flags for.
Without FILE, --input-tokens, --output-tokens and --request-count describe a
synthetic workload; the flags of replay generate, with generate- before their
names, describe a generated one: --generate-rate 5 --generate-requests 1000
--generate-input lognormal:mean=1000,sigma=0.8 --generate-output 200.`,
		Example: `  replay concurrency requests.jsonl --max-in-flight 64
  replay concurrency agents.jsonl --max-in-flight 8
  replay concurrency --max-in-flight 16 --input-tokens 4000 --output-tokens 200 \
    --request-count 1000`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := trace(args)
			if err != nil {
				return err
			}
			spec, err := o.spec(file, loadgen.Concurrency)
			if err != nil {
				return err
			}
			return o.replay(cmd.Context(), s, spec)
		},
	}
	o.bind(cmd)
	hide(cmd, "speedup", "arrival-interval-ms")
	return cmd
}
