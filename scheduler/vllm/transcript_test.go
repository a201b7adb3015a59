package vllm_test

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// The transcripts of vLLM's own rules. A core line also knows async (two passes
// in flight), long-prefill=N, unnamed-first (blocks that were never cached are
// taken first), priorities (the most urgent goes first), host=N blocks of host memory, 4 ms a block each way, and window=N tokens, or chunk=N, of the layers
// in windows=N groups (1), with `others=N` groups without windows (1); window-lag keeps what a running pass needs, and
// window-bound admits by what groups with windows hold at a time; drafts=N decodes speculatively, with accepted=P percent (100)
// of drafts, method=1 a draft model and 2 a head; draft-room and pad-drafts are rules.
func TestTranscripts(t *testing.T) {
	schedulertest.RunTranscripts(t, "testdata", func(e *schedulertest.Engine) (scheduler.Core, error) {
		c := config(e.Setup, releases.Rules019())
		c.Clock, c.Capture, c.Role = e.Clock, e.Capture, e.Role
		c.Rules.TwoInFlight = e.Has("async")
		c.Rules.OneQueue = !e.Has("unnamed-first")
		c.Rules.LongPrefillTokens = e.Int("long-prefill", 0)
		if e.Has("priorities") {
			c.Scheduling = vllm.ByPriority
		}
		c.Offload = blocks.Offload{
			Blocks: e.Int("host", 0), BytesPerToken: 1e6, BatchBlocks: 2, ToHostGBPerSecond: 1, ToGPUGBPerSecond: 1,
		}
		if n := max(e.Int("window", 0), e.Int("chunk", 0)); n > 0 {
			c.Windows = vllm.Windows{Tokens: n, Chunked: e.Int("chunk", 0) > 0, Groups: e.Int("windows", 1), Full: e.Int("others", 1)}
			c.Rules.WindowLag, c.Rules.WindowBound = e.Has("window-lag"), e.Has("window-bound")
		}
		if n := e.Int("drafts", 0); n > 0 {
			rate := float64(e.Int("accepted", 100)) / 100
			c.Speculation = &vllm.Speculation{Method: scheduler.Drafter(e.Int("method", 0)), Tokens: n, Acceptance: scheduler.Acceptance{Low: rate, High: rate}}
			c.Rules.DraftRoom, c.Rules.PadDrafts = e.Has("draft-room"), e.Has("pad-drafts")
		}
		return vllm.New(c)
	})
}
