package reference

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
)

// Transcripts of the reference's rules. A core line also supports chunk=N (tokens, default 32) and clip=N (tokens,
// default 4096). budget sets max_prefill_tokens, and seqs is ignored.
func TestTranscripts(t *testing.T) {
	schedulertest.RunTranscripts(t, "testdata", func(e *schedulertest.Engine) (scheduler.Core, error) {
		c := config(e.BlockTokens, e.Blocks)
		c.Tree, c.Clock, c.Capture, c.Role = e.Tree, e.Clock, e.Capture, e.Role
		c.Planner = true
		c.MaxPrefillTokens, c.ChunkTokens = e.MaxBatchedTokens, e.Int("chunk", 32)
		c.ClipNewTokens = e.Int("clip", 4096)
		return New(c)
	})
}
