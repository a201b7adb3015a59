package vllm

import (
	"errors"

	"github.com/replay-llm/replay/scheduler/vllm/windows"
)

// Windows are the groups of KV blocks of a model with layers that do not attend to every token before one.
type Windows = windows.Groups

// admittedBlocks returns how many blocks a group of layers with a window is taken to need
// when a request of so many in all is admitted.
func (c *Config) admittedBlocks(whole int) int {
	if !c.Rules.WindowBound || c.MaxBatchedTokens == Unlimited {
		return whole
	}
	tokens := c.MaxBatchedTokens
	if c.Rules.WindowLag && c.Rules.TwoInFlight {
		tokens *= 2
	}
	return min(whole, c.Windows.MostBlocks(tokens, c.BlockTokens))
}

// groupBlocks returns the blocks that all groups need at once of a request that is alone:
// so many of each that attends to everything, of which the prompt takes some.
func (c *Config) groupBlocks(need, prompt int) int {
	w := &c.Windows
	if !w.Given() {
		return need
	}
	windowed := need
	if c.MaxBatchedTokens != Unlimited {
		windowed = min(need, w.MostBlocks(2*c.MaxBatchedTokens, c.BlockTokens))
	}
	if c.Rules.ReserveWhole {
		windowed = max(windowed, c.admittedBlocks(prompt))
	}
	return w.Full*need + w.Groups*windowed
}

// SequenceBlocks returns the blocks that all groups need of a sequence of so many tokens:
// those with windows what they hold of it at a time.
func (c *Config) SequenceBlocks(tokens int) int {
	one := *c
	one.Rules.WindowBound = true
	whole := (tokens + c.BlockTokens - 1) / c.BlockTokens
	return c.Windows.Full*whole + c.Windows.Groups*one.admittedBlocks(whole)
}

// checkWindows reports what cannot be simulated beside windows.
func (c *Config) checkWindows() error {
	switch r := &c.Rules; {
	case !c.Windows.Given():
	case !r.WholeAllocation || !r.AdmitIdle || !r.RecomputeLast:
		return errors.New("sliding windows: want vLLM's own rules whole_allocation, admit_idle and recompute_last")
	case c.Offload.Given():
		return errors.New("sliding windows: not with host memory behind the KV blocks")
	}
	return c.Windows.Check(c.BlockTokens)
}
