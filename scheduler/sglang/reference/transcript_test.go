package reference

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
)

// The transcripts of the reference's rules. A core line also knows chunk=N (tokens, 32) and
// clip=N (tokens, 4096). Its budget is max_prefill_tokens, and seqs counts for nothing.
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
