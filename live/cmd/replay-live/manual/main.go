// Command manual writes the manual pages of replay-live and its completions for
// shells, for releases.
package main

import (
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/manual"
	"github.com/replay-llm/replay/live/cmd/replay-live/root"
)

func main() { manual.Start(root.New(cli.Streams{}, nil)) }
