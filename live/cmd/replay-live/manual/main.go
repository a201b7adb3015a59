// Command manual writes the manual pages and shell completions of replay-live, for releases.
package main

import (
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/manual"
	"github.com/replay-llm/replay/live/cmd/replay-live/root"
)

func main() { manual.Start(root.New(cli.Streams{}, nil)) }
