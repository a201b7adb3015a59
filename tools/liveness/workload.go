package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/tools/dice"
)

// size is how large the requests of a trial are.
type size struct {
	requests int
	block    int // tokens of the engine's block
	pool     int // tokens, about, that the engine holds
	variety  int // prompts that share their beginnings
	gap      float64
}

func (x *trial) drawRequests(rng *rand.Rand, block, pool int) {
	s := size{
		requests: 1 + rng.IntN(dice.Pick(rng, 3, 10, 40)), block: block, pool: pool,
		variety: dice.Pick(rng, 1, 2, 5), gap: dice.Pick(rng, 0, 1, 20, 200.),
	}
	if dice.Chance(rng, 5) {
		x.tags.Add("oversize")
	}
	x.tokens = dice.Pick(rng, block, block, 2*block, max(1, block/2), block+1)
	switch {
	case x.tags.Has("synthetic"):
		x.drawSynthetic(rng, s)
	case x.tags.Has("agentic"):
		x.drawAgentic(rng, s)
	default:
		x.drawTrace(rng, s)
	}
}

// drawLengths draws a request that mostly fits where nothing else runs.
func (x *trial) drawLengths(rng *rand.Rand, s size) (in, out int) {
	total := 2 + rng.IntN(max(1, s.pool-s.block))
	if x.tags.Has("oversize") && dice.Chance(rng, 5) {
		total += s.pool
	}
	in = 1 + rng.IntN(total)
	return in, max(1, total-in)
}

func (x *trial) drawTrace(rng *rand.Rand, s size) {
	var b strings.Builder
	at := 0.0
	for range s.requests {
		if !dice.Chance(rng, 3) {
			at += rng.Float64() * s.gap
		}
		in, out := x.drawLengths(rng, s)
		ids := make([]int, (in+x.tokens-1)/x.tokens)
		branch := rng.IntN(s.variety)
		for i := range ids {
			if dice.Chance(rng, 6) {
				branch = rng.IntN(s.variety)
			}
			ids[i] = 10*i + branch
		}
		record := map[string]any{"timestamp": at, "input_length": in, "output_length": out, "hash_ids": ids}
		if x.tags.Has("sessions") {
			record["session_id"] = fmt.Sprintf("s%d", rng.IntN(max(1, s.requests/3)))
		}
		b.WriteString(dice.Object(record))
		b.WriteByte('\n')
	}
	x.trace = b.String()
}

func (x *trial) drawSynthetic(rng *rand.Rand, s size) {
	in, out := x.drawLengths(rng, s)
	r := loadgen.Synthetic{
		Requests: s.requests, Input: in, Output: out, Interval: sim.Time(s.gap), Turns: 1,
		Block: s.block, Seed: x.seed, Compat: x.compat,
	}
	if dice.Chance(rng, 2) {
		r.Turns, r.Delay = 1+rng.IntN(3), sim.Time(s.gap)
		r.SharedRatio, r.Groups = dice.Pick(rng, 0, 0.5, 1), 1+rng.IntN(3)
	}
	x.synthetic = &r
}

func (x *trial) drawAgentic(rng *rand.Rand, s size) {
	var b strings.Builder
	for range max(1, s.requests/3) {
		total, final := x.drawLengths(rng, s)
		turns := rng.IntN(4)
		answers, outputs, latencies := make([]int, turns), make([]int, turns), make([]float64, turns)
		share := max(1, total/(2*turns+1))
		for i := range turns {
			answers[i], outputs[i] = share, rng.IntN(share)
			latencies[i] = rng.Float64() * s.gap / 1000
		}
		b.WriteString(dice.Object(map[string]any{
			"num_turns": turns, "input_prompt_length": share, "assistant_response_length": answers,
			"tool_call_output_length": outputs, "tool_call_latency": latencies, "final_assistant_response_length": final,
		}))
		b.WriteByte('\n')
	}
	x.trace = b.String()
}
