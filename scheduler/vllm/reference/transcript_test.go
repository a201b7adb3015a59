package reference_test

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
)

// Transcripts of the reference's rules. A core line also supports fifo (preempt the request admitted first) and
// host=N blocks of host memory, with 4 ms per block and direction.
func TestTranscripts(t *testing.T) {
	schedulertest.RunTranscripts(t, "testdata", func(e *schedulertest.Engine) (scheduler.Core, error) {
		c := suiteConfig(e.Setup)
		c.Clock, c.Capture, c.Role = e.Clock, e.Capture, e.Role
		if e.Has("fifo") {
			c.Preemption = vllm.FIFO
		}
		c.Offload = blocks.Offload{
			Blocks: e.Int("host", 0), BytesPerToken: 1e6, BatchBlocks: 2, ToHostGBPerSecond: 1, ToGPUGBPerSecond: 1,
		}
		return reference.New(c), nil
	})
}
