package vllm_test

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// Transcripts of vLLM's own rules. A core line also supports these settings; N is an integer:
//
//   - async: two passes are in flight
//   - long-prefill=N: maximum tokens of one request per pass
//   - unnamed-first: blocks that were never cached are allocated first
//   - priorities: the most urgent requests are admitted first
//   - host=N: blocks of host memory; a copy takes 4 ms per block in each direction
//   - window=N or chunk=N (tokens): layers with windows or chunks, in windows=N groups (1)
//   - `others=N` (1): groups without windows
//   - window-lag: blocks are kept while tokens of a running pass attend to them
//   - window-bound: admission counts the blocks that groups with windows need at once
//   - drafts=N per request and pass, with accepted=N (percent, 100) and method=N (a scheduler.Drafter)
//   - draft-room and pad-drafts: the rules of these names
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
