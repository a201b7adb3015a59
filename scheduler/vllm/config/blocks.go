package config

import "errors"

// AdmittedBlocks returns how many blocks of a group with windows admission counts for a request that has `whole`
// blocks in total.
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

// groupBlocks returns the blocks that a request without competition needs at once in all groups. The request needs
// need blocks in each group without windows; prompt is the number of blocks of its prompt.
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

// SequenceBlocks returns the blocks that a sequence of that many tokens needs in all groups. Groups with windows
// count the blocks they need at once.
func (c *Config) SequenceBlocks(tokens int) int {
	one := *c
	one.Rules.WindowBound = true
	whole := (tokens + c.BlockTokens - 1) / c.BlockTokens
	return c.Windows.Full*whole + c.Windows.Groups*one.AdmittedBlocks(whole)
}

// CheckWindows returns an error if the configuration has windows and a setting that does not support them.
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

// UsableBlocks returns the number of blocks in the pool that requests can use.
func (c *Config) UsableBlocks() int {
	if c.Rules.NullBlock {
		return c.Blocks - 1
	}
	return c.Blocks
}

// lastTokenPlace returns 1 if the last token of an answer needs a slot in a block, otherwise 0.
func (c *Config) lastTokenPlace() int {
	if c.Rules.WholeAllocation {
		return 0
	}
	return 1
}
