package vllm

import "github.com/replay-llm/replay/scheduler/vllm/rules"

// Rules chooses, rule by rule, between vLLM's own scheduler and the reference simulator.
type Rules = rules.Rules

// usableBlocks returns the number of blocks of the pool that requests can have.
func (c *Config) usableBlocks() int {
	if c.Rules.NullBlock {
		return c.Blocks - 1
	}
	return c.Blocks
}

// lastTokenPlace returns 1 when the last token of an answer needs a place in a block.
func (c *Config) lastTokenPlace() int {
	if c.Rules.WholeAllocation {
		return 0
	}
	return 1
}
