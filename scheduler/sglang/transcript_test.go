package sglang

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
)

// The transcripts of both sets of rules. A core line also knows
// rules=reference, chunk=N (tokens, 32), clip=N (tokens, 4096),
// conservativeness=X, lpm, nocache, and bytes=N with gbps=X for handoffs. Its
// budget is max_prefill_tokens, and seqs counts for nothing.
func TestTranscripts(t *testing.T) {
	schedulertest.RunTranscripts(t, "testdata", func(e *schedulertest.Engine) (scheduler.Core, error) {
		rules := DefaultRules()
		if e.Text("rules", "default") == "reference" {
			rules = CompatRules()
		}
		c := config(rules, e.BlockTokens, e.Blocks)
		c.Tree, c.Clock, c.Capture, c.Role = e.Tree, e.Clock, e.Capture, e.Role
		c.Planner, c.PrefixCaching = true, !e.Has("nocache")
		c.MaxPrefillTokens, c.ChunkTokens = e.MaxBatchedTokens, e.Int("chunk", 32)
		c.ClipNewTokens = e.Int("clip", 4096)
		c.Conservativeness = e.Float("conservativeness", 1)
		c.Transfer = scheduler.Transfer{GBPerSecond: e.Float("gbps", 0), BytesPerToken: e.Int("bytes", 0)}
		if e.Has("lpm") {
			c.Policy = LPM
		}
		return New(c)
	})
}
