//go:build offline

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/offline"
)

// networkCommands stand for the commands that this program does not have.
func networkCommands() []subcommand {
	var all []subcommand
	for _, name := range []string{"stack", "worker", "frontend", "kv-tail", "conformance"} {
		all = append(all, subcommand{name, func(streams) *cobra.Command { return leftOut(name) }})
	}
	return all
}

// queueCommands stand for those of a sweep over several processes.
func queueCommands(streams) []*cobra.Command {
	var all []*cobra.Command
	for _, name := range []string{"run", "submit", "work", "status", "collect", "cell"} {
		all = append(all, leftOut(name))
	}
	return all
}

// runProcesses stands for a replay on processes.
func (*liveRun) runProcesses(context.Context, *options, streams, *replay.Spec, replay.Streams) (*offline.Result, error) {
	return nil, leftOutError("--mode=cluster")
}

// leftOut is a command that says that it is not here, whatever its flags.
func leftOut(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Not in this program, which simulates only", DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return leftOutError(cmd.Name()) },
	}
}

func leftOutError(what string) error {
	return usagef("%s: left out of this program (build tag offline), want one built without the tag", what)
}
