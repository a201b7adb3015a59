package ledger

import (
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Engine is what the time of a decode step depends on.
type Engine struct {
	Clock  timing.Clock
	Blocks int  // KV blocks of the pool
	Block  int  // tokens of a block
	Whole  bool // blocks count as a whole, however few of their tokens are taken

	// sums[n] is what the tokens after a context of 0 to n-1 tokens take together, ms.
	sums []float64
}

// NewEngine is the engine of the given arguments.
func NewEngine(a *engineargs.Args) (*Engine, error) {
	e := &Engine{
		Clock:  timing.Clock{Model: timing.Polynomial{}, Speedup: a.Speedup, DecodeSpeedup: a.DecodeSpeedup},
		Blocks: a.Blocks, Block: a.BlockTokens, Whole: a.Engine == engineargs.VLLM,
	}
	if a.ProfilePath == "" {
		return e, nil
	}
	model, err := timing.Load(a.ProfilePath)
	if err != nil {
		return nil, err
	}
	e.Clock.Model = model
	return e, nil
}

// Alone is what it takes to decode tokens after a context of input tokens, one
// by one and with nobody else on the engine, in ms.
func (e *Engine) Alone(input, tokens int) float64 {
	if len(e.sums) <= input+tokens {
		e.extend(input + tokens)
	}
	return e.sums[input+tokens] - e.sums[input]
}

// extend makes sums that go up to a context of n tokens. Where a step depends on
// the blocks alone, one is looked at for each number of blocks.
func (e *Engine) extend(n int) {
	if len(e.sums) == 0 {
		e.sums = append(e.sums, 0)
	}
	same := 1 // how many steps in a row take the same
	if e.Whole && !e.Clock.Model.ByContext() {
		same = e.Block
	}
	sum := e.sums[len(e.sums)-1]
	for next := len(e.sums) - 1; next < n; {
		ms := e.step(next)
		last := (next + same - 1) / same * same // the context that fills the blocks
		for ok := true; ok; ok = next <= last {
			sum += ms
			e.sums = append(e.sums, sum)
			next++
		}
	}
}

// step is the time of the token after a context of n tokens, in ms.
func (e *Engine) step(n int) float64 {
	active := n
	if e.Whole {
		active = (n + e.Block - 1) / e.Block * e.Block
	}
	capacity := e.Blocks * e.Block
	ms, err := e.Clock.Decode(1, min(active, capacity), n, capacity)
	if err != nil {
		return 0 // longer than any clock can count; the run has failed of it before
	}
	return ms
}
