// Command replay simulates clusters of LLM inference engines on recorded or
// synthetic workloads, in logical time.
package main

import (
	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
)

func main() { cli.Program(root.New).Start() }
