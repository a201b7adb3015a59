package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/tools/dice"
)

// shape is how large a workload is.
type shape struct {
	requests int // lines, sessions or synthetic requests
	turns    int // at most, in a session
	tokens   int // of a hash id
	prompt   int // at most, in hash ids
	answer   int // at most, in tokens
	gap      float64
	variety  int // prompts that share their beginnings
}

func (w *workload) drawShape(rng *rand.Rand, block int) shape {
	if (w.tags.Has("flat") || w.tags.Has("sessions")) && dice.Chance(rng, 6) {
		w.tags.Add("digits")
	}
	s := shape{
		requests: 1 + rng.IntN(dice.Pick(rng, 4, 20, 60)),
		turns:    1 + rng.IntN(4),
		tokens:   dice.Pick(rng, block, block, 2*block, 4*block, 64, 512),
		prompt:   1 + rng.IntN(dice.Pick(rng, 2, 6, 12)),
		answer:   dice.Pick(rng, 1, 4, 30, 150),
		gap:      dice.Pick(rng, 1., 10, 60, 400),
		variety:  dice.Pick(rng, 1, 2, 6),
	}
	if dice.Chance(rng, 4) {
		s.tokens = max(1, block*dice.Pick(rng, 1, 3)/2+rng.IntN(block))
	}
	if s.tokens%block != 0 {
		w.tags.Add("straddle")
	}
	if dice.Chance(rng, 8) {
		w.tags.Add("long")
		s.requests, s.answer = s.requests+rng.IntN(400), dice.Pick(rng, 50, 300, 2000)
	}
	if w.tags.Has("kv") { // few ties to win
		s.requests, s.turns = min(s.requests, 5), min(s.turns, 2)
	}
	for s.tokens*s.prompt > 6000 && s.prompt > 1 {
		s.prompt--
	}
	return s
}

// drawRequests draws the trace, or the flags of a synthetic one, and returns
// the tokens of the largest request.
func (w *workload) drawRequests(rng *rand.Rand, block int) int {
	s := w.drawShape(rng, block)
	switch {
	case w.tags.Has("synthetic"):
		return w.drawSynthetic(rng, s, block)
	case w.tags.Has("agentic"):
		w.addArgs("--trace-format", "applied_compute_agentic", "--trace-block-size", s.tokens)
		if dice.Chance(rng, 2) {
			w.addArgs("--trace-shared-prefix-ratio", dice.Pick(rng, "0.25", "0.5", "1"), "--trace-num-prefix-groups", 1+rng.IntN(3))
		}
		return w.drawAgentic(rng, s)
	case w.tags.Has("sessions"):
		w.addArgs("--trace-block-size", s.tokens)
		return w.drawSessions(rng, s)
	}
	w.addArgs("--trace-block-size", s.tokens)
	return w.drawFlat(rng, s)
}

// drawIDs draws hash ids that begin like those of other requests.
func (s *shape) drawIDs(rng *rand.Rand) []uint64 {
	ids := make([]uint64, 1+rng.IntN(s.prompt))
	branch := uint64(0)
	for i := range ids {
		if dice.Chance(rng, 3) {
			branch = uint64(rng.IntN(s.variety))
		}
		ids[i] = uint64(i)*100 + branch
	}
	return ids
}

func (s *shape) drawInput(rng *rand.Rand, ids []uint64) int {
	whole := len(ids) * s.tokens
	if dice.Chance(rng, 3) {
		return whole
	}
	return whole - rng.IntN(s.tokens)
}

// appendRecord writes one record of a trace.
func appendRecord(b *strings.Builder, record map[string]any) {
	b.WriteString(dice.Object(record))
	b.WriteByte('\n')
}

// drawFlat draws requests that come one by one or together, not always in order.
func (w *workload) drawFlat(rng *rand.Rand, s shape) (largest int) {
	var b strings.Builder
	at := 0.0
	for range s.requests {
		if !dice.Chance(rng, 3) {
			at += rng.Float64() * s.gap
		}
		ids := s.drawIDs(rng)
		in, out := s.drawInput(rng, ids), 1+rng.IntN(s.answer)
		stamp := at
		if dice.Chance(rng, 10) {
			stamp = max(0, at-rng.Float64()*s.gap)
		}
		appendRecord(&b, map[string]any{"timestamp": w.formatNumber(stamp), "input_length": in, "output_length": out, "hash_ids": ids})
		largest = max(largest, in+out)
	}
	w.trace = b.String()
	return largest
}

// drawSessions draws conversations: each turn's prompt begins with the one before.
func (w *workload) drawSessions(rng *rand.Rand, s shape) (largest int) {
	var b strings.Builder
	at := 0.0
	for n := range max(1, s.requests/2) {
		at += rng.Float64() * s.gap
		ids, stamp := s.drawIDs(rng), at
		for turn := range 1 + rng.IntN(s.turns) {
			record := map[string]any{"session_id": fmt.Sprintf("s%d", n), "hash_ids": ids}
			in, out := s.drawInput(rng, ids), 1+rng.IntN(s.answer)
			record["input_length"], record["output_length"] = in, out
			switch {
			case turn == 0:
				record["timestamp"] = w.formatNumber(stamp)
			case dice.Chance(rng, 2):
				record["delay"] = w.formatNumber(rng.Float64() * s.gap)
			case dice.Chance(rng, 2):
				stamp += rng.Float64() * s.gap
				record["timestamp"] = w.formatNumber(stamp)
			}
			appendRecord(&b, record)
			largest = max(largest, in+out)
			ids = append(append([]uint64(nil), ids...), uint64(10000+100*n+turn))
		}
	}
	w.trace = b.String()
	return largest
}

// drawAgentic draws agents that call tools.
func (w *workload) drawAgentic(rng *rand.Rand, s shape) (largest int) {
	var b strings.Builder
	for range max(1, s.requests/3) {
		turns := rng.IntN(s.turns)
		prompt := 1 + rng.IntN(s.prompt*s.tokens)
		answers, outputs, latencies := make([]int, turns), make([]int, turns), make([]json.Number, turns)
		total := prompt
		for i := range turns {
			answers[i], outputs[i] = 1+rng.IntN(s.answer), rng.IntN(s.tokens+1)
			latencies[i] = w.formatNumber(rng.Float64() * s.gap / 100)
			total += answers[i] + outputs[i]
		}
		final := 1 + rng.IntN(s.answer)
		appendRecord(&b, map[string]any{
			"num_turns": turns, "input_prompt_length": prompt, "assistant_response_length": answers,
			"tool_call_output_length": outputs, "tool_call_latency": latencies, "final_assistant_response_length": final,
		})
		largest = max(largest, total+final, prompt+s.answer)
	}
	w.trace = b.String()
	return largest
}

// drawSynthetic draws the flags of a made-up workload, with turns or without.
func (w *workload) drawSynthetic(rng *rand.Rand, s shape, block int) (largest int) {
	in, out := 1+rng.IntN(min(s.prompt*s.tokens, 3000)), 1+rng.IntN(s.answer)
	w.addArgs("--input-tokens", in, "--output-tokens", out, "--request-count", s.requests)
	w.addArgs("--arrival-interval-ms", formatDecimal(rng.Float64()*s.gap))
	if dice.Chance(rng, 2) {
		w.tags.Add("sessions")
		w.addArgs("--turns-per-session", s.turns)
		if dice.Chance(rng, 2) {
			w.addArgs("--shared-prefix-ratio", dice.Pick(rng, "0.3", "0.5", "1"), "--num-prefix-groups", 1+rng.IntN(3))
		}
		if dice.Chance(rng, 2) {
			w.addArgs("--inter-turn-delay-ms", formatDecimal(rng.Float64()*s.gap))
		}
	}
	return in + out
}

// formatNumber writes v so that every reader reads it alike, or, under the tag
// digits, with so many that the reference rounds in its own way.
func (w *workload) formatNumber(v float64) json.Number {
	if w.tags.Has("digits") {
		return json.Number(strconv.FormatFloat(v, 'f', -1, 64))
	}
	return json.Number(formatDecimal(v))
}
