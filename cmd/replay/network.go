//go:build !offline

package main

import "github.com/spf13/cobra"

// networkCommands are the commands that talk to other processes. The files that
// the build tag offline leaves out are reached from here, from queueCommands and
// from runProcesses alone; network_offline.go stands in for them.
func networkCommands() []subcommand {
	return []subcommand{
		{"stack", newStackCommand}, {"worker", newWorkerCommand}, {"frontend", newFrontendCommand},
		{"kv-tail", newKVTailCommand}, {"conformance", newConformanceCommand},
	}
}

// queueCommands are those of a sweep over several processes.
func queueCommands(s streams) []*cobra.Command {
	return []*cobra.Command{
		newSweepRunCommand(s), newSweepSubmitCommand(s), newSweepWorkCommand(s),
		newSweepStatusCommand(s), newSweepCollectCommand(s), newSweepCellCommand(s),
	}
}

// endInOwnTime says that the command needs longer than patience to end in good
// order. A second signal still ends it at once.
func (s streams) endInOwnTime() {
	select {
	case s.calm <- struct{}{}:
	default:
	}
}
