// Command manual writes the manual pages of replay and its completions for
// shells, for releases, and the types of its flags, for Python.
package main

//go:generate go run . -python ../../../python/src/replay/flags.py

import (
	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/manual"
)

func main() { manual.Start(root.New(cli.Streams{}, nil)) }
