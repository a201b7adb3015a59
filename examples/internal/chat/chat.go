// Package chat has the replay that the examples modify: an hour of a chat service, from the trace in the repository,
// on a few servers.
package chat

import (
	"fmt"
	"os"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
)

// Spec returns a replay of the hour at speedup times its rate, on workers with the default engine.
func Spec(workers int, speedup float64) (replay.Spec, error) {
	path, err := findTrace("testdata/traces/chat-hour.jsonl")
	return replay.Spec{
		Trace:    &replay.Trace{Path: path, Detect: true},
		Mode:     loadgen.Trace,
		Speedup:  speedup,
		Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), workers)},
	}, err
}

// findTrace returns the path of a repository file from the working directory: the root, or the folder of an example.
func findTrace(path string) (string, error) {
	for _, up := range []string{"", "../../", "../../../"} {
		if _, err := os.Stat(up + path); err == nil {
			return up + path, nil
		}
	}
	return "", fmt.Errorf("%s is not there, must be the example run in its folder or in the root of the repository", path)
}
