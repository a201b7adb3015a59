package draw

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// shape is the size of a workload.
type shape struct {
	requests int // number of lines, sessions or synthetic requests
	turns    int // maximum turns of a session
	tokens   int // tokens per hash id
	prompt   int // maximum hash ids of a prompt
	answer   int // maximum tokens of an answer
	gap      float64
	variety  int // number of distinct prefixes
}

func (d *Drawer) drawShape(block int) shape {
	if (d.Tags.Has("flat") || d.Tags.Has("sessions")) && d.Chance(6) {
		d.Tags.Add("digits")
	}
	s := shape{
		requests: 1 + d.IntN(Pick(d.Rand, 4, 20, 60)),
		turns:    1 + d.IntN(4),
		tokens:   Pick(d.Rand, block, block, 2*block, 4*block, 64, 512),
		prompt:   1 + d.IntN(Pick(d.Rand, 2, 6, 12)),
		answer:   Pick(d.Rand, 1, 4, 30, 150),
		gap:      Pick(d.Rand, 1., 10, 60, 400),
		variety:  Pick(d.Rand, 1, 2, 6),
	}
	if d.Chance(4) {
		s.tokens = max(1, block*Pick(d.Rand, 1, 3)/2+d.IntN(block))
	}
	if d.tiny {
		s.requests = min(s.requests, 40)
		s.tokens = Pick(d.Rand, block, block, 2*block, max(1, block/2), block+1)
	}
	if s.tokens%block != 0 {
		d.Tags.Add("straddle")
	}
	if !d.tiny && d.Chance(8) {
		d.Tags.Add("long")
		s.requests, s.answer = s.requests+d.IntN(400), Pick(d.Rand, 50, 300, 2000)
	}
	if d.Tags.Has("kv") && !d.tiny { // limits the number of ties
		s.requests, s.turns = min(s.requests, 5), min(s.turns, 2)
	}
	for s.tokens*s.prompt > 6000 && s.prompt > 1 {
		s.prompt--
	}
	return s
}

// drawRequests draws the trace, or the flags of a synthetic workload. drawRequests returns the tokens of the largest
// request.
func (d *Drawer) drawRequests(block int) int {
	s := d.drawShape(block)
	switch {
	case d.Tags.Has("synthetic"):
		return d.drawSynthetic(s)
	case d.Tags.Has("agentic"):
		d.addArgs("--trace-format", "applied_compute_agentic", "--trace-block-size", s.tokens)
		if d.Chance(2) {
			d.addArgs("--trace-shared-prefix-ratio", Pick(d.Rand, "0.25", "0.5", "1"), "--trace-num-prefix-groups", 1+d.IntN(3))
		}
		return d.drawAgentic(s)
	case d.Tags.Has("sessions"):
		d.addArgs("--trace-block-size", s.tokens)
		return d.drawSessions(s)
	}
	d.addArgs("--trace-block-size", s.tokens)
	return d.drawFlat(s)
}

// drawIDs draws hash ids with a prefix that other requests share.
func (d *Drawer) drawIDs(s shape) []uint64 {
	ids := make([]uint64, 1+d.IntN(s.prompt))
	branch := uint64(0)
	for i := range ids {
		if d.Chance(3) {
			branch = uint64(d.IntN(s.variety))
		}
		ids[i] = uint64(i)*100 + branch
	}
	return ids
}

func (d *Drawer) drawInput(s shape, ids []uint64) int {
	whole := len(ids) * s.tokens
	if d.Chance(3) {
		return whole
	}
	return whole - d.IntN(s.tokens)
}

// addRecord adds a line to the trace.
func (d *Drawer) addRecord(record map[string]any) { d.Trace += formatObject(record) + "\n" }

// drawFlat draws single requests. Some requests arrive at the same time, and some are out of order.
func (d *Drawer) drawFlat(s shape) (largest int) {
	at := 0.0
	for range s.requests {
		if !d.Chance(3) {
			at += d.Float64() * s.gap
		}
		ids := d.drawIDs(s)
		in, out := d.drawInput(s, ids), 1+d.IntN(s.answer)
		stamp := at
		if d.Chance(10) {
			stamp = max(0, at-d.Float64()*s.gap)
		}
		d.addRecord(map[string]any{"timestamp": d.formatNumber(stamp), "input_length": in, "output_length": out, "hash_ids": ids})
		largest = max(largest, in+out)
	}
	return largest
}

// drawSessions draws conversations. The prompt of each turn begins with the prompt of the previous turn.
func (d *Drawer) drawSessions(s shape) (largest int) {
	at := 0.0
	for n := range max(1, s.requests/2) {
		at += d.Float64() * s.gap
		ids, stamp := d.drawIDs(s), at
		for turn := range 1 + d.IntN(s.turns) {
			record := map[string]any{"session_id": fmt.Sprintf("s%d", n), "hash_ids": ids}
			in, out := d.drawInput(s, ids), 1+d.IntN(s.answer)
			record["input_length"], record["output_length"] = in, out
			switch {
			case turn == 0:
				record["timestamp"] = d.formatNumber(stamp)
			case d.Chance(2):
				record["delay"] = d.formatNumber(d.Float64() * s.gap)
			case d.Chance(2):
				stamp += d.Float64() * s.gap
				record["timestamp"] = d.formatNumber(stamp)
			}
			d.addRecord(record)
			largest = max(largest, in+out)
			ids = append(append([]uint64(nil), ids...), uint64(10000+100*n+turn))
		}
	}
	return largest
}

// drawAgentic draws agents that call tools.
func (d *Drawer) drawAgentic(s shape) (largest int) {
	for range max(1, s.requests/3) {
		turns := d.IntN(s.turns)
		prompt := 1 + d.IntN(s.prompt*s.tokens)
		answers, outputs, latencies := make([]int, turns), make([]int, turns), make([]json.Number, turns)
		total := prompt
		for i := range turns {
			answers[i], outputs[i] = 1+d.IntN(s.answer), d.IntN(s.tokens+1)
			latencies[i] = d.formatNumber(d.Float64() * s.gap / 100)
			total += answers[i] + outputs[i]
		}
		final := 1 + d.IntN(s.answer)
		d.addRecord(map[string]any{
			"num_turns": turns, "input_prompt_length": prompt, "assistant_response_length": answers,
			"tool_call_output_length": outputs, "tool_call_latency": latencies, "final_assistant_response_length": final,
		})
		largest = max(largest, total+final, prompt+s.answer)
	}
	return largest
}

// drawSynthetic draws the flags of a synthetic workload, with or without turns.
func (d *Drawer) drawSynthetic(s shape) (largest int) {
	in, out := 1+d.IntN(min(s.prompt*s.tokens, 3000)), 1+d.IntN(s.answer)
	d.addArgs("--input-tokens", in, "--output-tokens", out, "--request-count", s.requests)
	d.addArgs("--arrival-interval-ms", formatDecimal(d.Float64()*s.gap))
	if d.Chance(2) {
		d.Tags.Add("sessions")
		d.addArgs("--turns-per-session", s.turns)
		if d.Chance(2) {
			d.addArgs("--shared-prefix-ratio", Pick(d.Rand, "0.3", "0.5", "1"), "--num-prefix-groups", 1+d.IntN(3))
		}
		if d.Chance(2) {
			d.addArgs("--inter-turn-delay-ms", formatDecimal(d.Float64()*s.gap))
		}
	}
	return in + out
}

// formatNumber formats v so that all readers parse the same number. With the tag digits it writes all digits of v,
// which the reference rounds differently.
func (d *Drawer) formatNumber(v float64) json.Number {
	if d.Tags.Has("digits") {
		return json.Number(strconv.FormatFloat(v, 'f', -1, 64))
	}
	return json.Number(formatDecimal(v))
}

// formatDecimal formats v with 12 significant digits, so that all readers parse the same number.
func formatDecimal(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }
