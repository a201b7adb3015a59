// Command replay-live serves simulated LLM inference engines as processes of a cluster. Command replay-live also
// replays workloads and sweeps on such clusters.
package main

import (
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/live/cmd/replay-live/root"
)

func main() { cli.Program(root.New).Start() }
