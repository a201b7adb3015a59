package reference_test

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
)

func suiteConfig(s schedulertest.Setup) vllm.Config {
	c := plain(s.BlockTokens)
	c.Tree, c.Blocks, c.MaxSeqs, c.MaxBatchedTokens = s.Tree, s.Blocks, s.MaxSeqs, s.MaxBatchedTokens
	return c
}

func TestSuite(t *testing.T) {
	schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core { return reference.New(suiteConfig(s)) })
}

// TestTwinSuite runs the same tests with the twin, which runs one pass per Step.
func TestTwinSuite(t *testing.T) {
	schedulertest.Run(t, func(s schedulertest.Setup) scheduler.Core { return newNaive(suiteConfig(s)) })
}
