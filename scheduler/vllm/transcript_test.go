package vllm_test

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// The transcripts of vLLM's own rules. A core line also knows sync (one pass in
// flight), long-prefill=N and nochunks.
func TestTranscripts(t *testing.T) {
	schedulertest.RunTranscripts(t, "testdata", func(e *schedulertest.Engine) (scheduler.Core, error) {
		c := config(e.Setup, vllm.Rules019())
		c.Clock, c.Capture, c.Role = e.Clock, e.Capture, e.Role
		c.Rules.TwoInFlight = !e.Has("sync")
		c.Rules.LongPrefillTokens = e.Int("long-prefill", 0)
		c.ChunkedPrefill = !e.Has("nochunks")
		return vllm.New(c)
	})
}
