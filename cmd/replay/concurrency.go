package main

import (
	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/loadgen"
)

// newConcurrencyCommand replays a workload with a number of requests in flight.
func newConcurrencyCommand(s streams) *cobra.Command {
	return newRunCommand(s, loadgen.Concurrency, &cobra.Command{
		Use:   "concurrency [FILE] --max-in-flight K",
		Short: "Keep a number of requests in flight",
		Long: `Replay a workload in closed loop: the next request arrives when one of the K in
flight completes. Times of the trace do not count, delays within a session do.

` + workloadHelp,
		Example: `  replay concurrency requests.jsonl --max-in-flight 64
  replay concurrency agents.jsonl --max-in-flight 8
  replay concurrency --max-in-flight 16 --input-tokens 4000 --output-tokens 200 \
    --request-count 1000`,
	}, "speedup", "arrival-interval-ms")
}
