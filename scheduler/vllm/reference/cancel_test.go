package reference_test

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
)

// TestCancel runs the tests of cancellation with every capture level and every kind of cache.
func TestCancel(t *testing.T) {
	for name, change := range map[string]func(*vllm.Config){
		"plain":          func(*vllm.Config) {},
		"residency":      func(c *vllm.Config) { c.Capture = scheduler.CaptureResidency },
		"events":         func(c *vllm.Config) { c.Capture = scheduler.CaptureEvents },
		"first victim":   func(c *vllm.Config) { c.Preemption = vllm.FIFO },
		"no cache":       func(c *vllm.Config) { c.PrefixCaching = false },
		"prefill worker": func(c *vllm.Config) { c.Role = scheduler.Prefill },
		"host memory": func(c *vllm.Config) {
			c.Offload = blocks.Offload{Blocks: 40, BytesPerToken: 1 << 20, BatchBlocks: 4, ToHostGBPerSecond: 1, ToGPUGBPerSecond: 0.2}
		},
	} {
		t.Run(name, func(t *testing.T) {
			schedulertest.RunCancel(t, name != "host memory", func(s schedulertest.Setup) scheduler.Core {
				c := suiteConfig(s)
				change(&c)
				return reference.New(c)
			})
		})
	}
}
