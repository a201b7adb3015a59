package config

import "errors"

// AdmittedBlocks returns how many blocks a group of layers with a window is taken to need
// when a request is admitted that has a number of blocks in all (whole).
func (c *Config) AdmittedBlocks(whole int) int {
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
// need of each that attends to everything, of which the prompt takes some.
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
		windowed = max(windowed, c.AdmittedBlocks(prompt))
	}
	return w.Full*need + w.Groups*windowed
}

// SequenceBlocks returns the blocks that a sequence of a number of tokens needs in all groups: in those with windows
// the blocks that it holds at a time.
func (c *Config) SequenceBlocks(tokens int) int {
	one := *c
	one.Rules.WindowBound = true
	whole := (tokens + c.BlockTokens - 1) / c.BlockTokens
	return c.Windows.Full*whole + c.Windows.Groups*one.AdmittedBlocks(whole)
}

// CheckWindows refuses what cannot be simulated together with windows.
func (c *Config) CheckWindows() error {
	switch r := &c.Rules; {
	case !c.Windows.Given():
	case !r.WholeAllocation || !r.AdmitIdle || !r.RecomputeLast:
		return errors.New("sliding windows require vLLM's own rules whole_allocation, admit_idle and recompute_last")
	case c.Offload.Given():
		return errors.New("sliding windows: not with host memory behind the KV blocks")
	}
	return c.Windows.Check(c.BlockTokens)
}

// UsableBlocks returns the number of blocks of the pool that requests can have.
func (c *Config) UsableBlocks() int {
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
