package engines

import (
	"math"

	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// Estimated is the work on a worker for an estimate.
type Estimated struct {
	Waiting int // prompt tokens to compute first; each pass counts as a separate prompt
	Own     int // prompt tokens of the current request
	Cached  int // cached tokens before the prompt tokens to compute
	Decodes int // requests that gain a token in each pass
	Context int // tokens of their KV caches
}

// Estimate returns the time of a worker of the pool for e, by the pool's model of pass times. Estimate uses at least
// one pass, and passes as full as the engine allows.
func (s *Stage) Estimate(e Estimated) sim.Time {
	room := s.Engine.MaxBatchedTokens
	if room <= 0 {
		room = math.MaxInt
	}
	room = max(room-e.Decodes, 1)
	total := sim.Time(0)
	if full := e.Waiting / room; full > 0 { // equally long passes
		total = sim.Time(full) * s.estimatePass(&e, room, 0)
		e.Waiting %= room
	}
	for first := true; first || e.Own > 0; first = false {
		own := min(room-e.Waiting, e.Own)
		total += s.estimatePass(&e, e.Waiting, own)
		e.Waiting, e.Own, e.Cached = 0, e.Own-own, e.Cached+own
	}
	return total
}

// estimatePass returns the time of a pass. The pass has before tokens of earlier prompts, own tokens of the current
// prompt, and the decodes of e.
func (s *Stage) estimatePass(e *Estimated, before, own int) sim.Time {
	step := timing.Step{
		Tokens: before + own + e.Decodes, Requests: e.Decodes, Readers: e.Decodes, Context: int64(e.Context),
		Decodes: e.Decodes, DecodeLength: e.Context, Active: e.Context, Capacity: s.Engine.Blocks * s.Engine.BlockTokens,
	}
	for _, x := range [...]struct{ tokens, cached int }{{before, 0}, {own, e.Cached}} {
		if x.tokens == 0 {
			continue
		}
		step.Requests++
		step.Chunks++
		step.ChunkTokens += x.tokens
		step.Prompts++
		step.PromptReached += x.cached + x.tokens
		step.PromptBefore += x.cached
		step.Pairs += float64(float64(x.tokens) * (float64(x.cached) + float64(float64(x.tokens)/2)))
	}
	if step.Tokens == 0 {
		return 0
	}
	ms, err := s.Clock.Step(&step)
	if err != nil {
		return sim.Time(math.Inf(1))
	}
	return sim.Time(ms)
}
