package ledger

import (
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Engine holds the properties of an engine on which the time of a decode step depends.
type Engine struct {
	Clock  timing.Clock
	Blocks int  // KV blocks of the pool
	Block  int  // tokens per block
	Whole  bool // blocks count as a whole, however few of their tokens are taken

	// sums[n] is the total time of the tokens after contexts of 0 to n-1 tokens, in ms. If each token after the n-th
	// block takes steps[n], sums[n] is the total for contexts of 0 to n·Block tokens.
	sums, steps []float64
}

// NewEngine returns the engine of the given arguments.
func NewEngine(a *engineargs.Args) (*Engine, error) {
	model, err := a.PassTimes.Load()
	if err != nil {
		return nil, err
	}
	return &Engine{
		Clock:  timing.Clock{Model: model, Speedup: a.Speedup, DecodeSpeedup: a.DecodeSpeedup},
		Blocks: a.Blocks, Block: a.BlockTokens, Whole: a.Engine == engineargs.VLLM,
	}, nil
}

// Alone returns the time to decode tokens after a context of input tokens, one by one, if no other request is on the
// engine, in ms.
func (e *Engine) Alone(input, tokens int) float64 {
	if e.Whole && !e.Clock.Model.ByContext() {
		return max(0, e.decodeBlockSums(input+tokens)-e.decodeBlockSums(input))
	}
	if len(e.sums) == 0 {
		e.sums = append(e.sums, 0)
	}
	for n := len(e.sums); n <= input+tokens; n++ {
		e.sums = append(e.sums, e.sums[n-1]+e.decodeStepMS(n-1))
	}
	return e.sums[input+tokens] - e.sums[input]
}

// decodeBlockSums returns the total time of the tokens after contexts of 0 to n-1 tokens, if a step depends only on
// the number of blocks. The contexts of 1 to Block tokens have equal steps, and so on. The context of 0 tokens is
// separate.
func (e *Engine) decodeBlockSums(n int) float64 {
	if n == 0 {
		return 0
	}
	blocks := (n - 1) / e.Block // that are full before the last step
	if len(e.sums) == 0 {
		e.sums = append(e.sums, e.decodeStepMS(0))
		e.steps = append(e.steps, e.decodeStepMS(1))
	}
	for len(e.sums) <= blocks {
		last := len(e.sums) - 1
		e.sums = append(e.sums, e.sums[last]+float64(float64(e.Block)*e.steps[last]))
		e.steps = append(e.steps, e.decodeStepMS((last+1)*e.Block+1))
	}
	return e.sums[blocks] + float64(float64(n-1-blocks*e.Block)*e.steps[blocks])
}

// decodeStepMS returns the time of the token after a context of n tokens, in ms.
func (e *Engine) decodeStepMS(n int) float64 {
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
