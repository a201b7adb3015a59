package reference_test

import (
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// line is a request of a trace.
type line struct {
	at      sim.Time
	in, out int
	ids     []uint64
}

// arrivals interns the prompts of lines in a new tree.
func arrivals(lines []line, traceTokens, blockTokens int, o prompt.Options) ([]schedulertest.Arrival, *prompt.Tree) {
	tree := prompt.NewTree(traceTokens, blockTokens, o)
	prompts := tree.AddAll(len(lines), func(i int) ([]uint64, int) { return lines[i].ids, lines[i].in })
	out := make([]schedulertest.Arrival, len(lines))
	for i, l := range lines {
		out[i] = schedulertest.Arrival{At: l.at, Request: &sim.Request{
			ID: sim.RequestID(i), InputTokens: l.in, OutputTokens: l.out, Prompt: prompts.At(i),
		}}
	}
	return out, tree
}

// plain returns a configuration with default arguments and blocks of that many tokens.
func plain(blockTokens int) vllm.Config {
	return vllm.Config{
		Settings: vllm.Settings{MaxSeqs: 256, MaxBatchedTokens: 8192, ChunkedPrefill: true},
		Blocks:   16384, BlockTokens: blockTokens,
		PrefixCaching: true,
		Clock:         timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
	}
}

// record is the result of one request.
type record struct {
	arrived             sim.Time
	first, second, last sim.Time
	input, reused       int
	handoff             sim.Time
}

// outcome is the result of a run.
type outcome struct {
	records []record
	gaps    []sim.Time // inter-token latencies, ascending
	end     sim.Time   // time of the last token
}

// replay runs one worker and returns the outcome.
func replay(core scheduler.Core, arrivals []schedulertest.Arrival) (outcome, error) {
	out := outcome{records: make([]record, len(arrivals))}
	for i, a := range arrivals {
		out.records[i].arrived, out.records[i].input = a.At, a.Request.InputTokens
	}
	err := schedulertest.Replay(core, arrivals, schedulertest.UntilArrival, func(s schedulertest.Step) error {
		out.take(s)
		return nil
	})
	slices.Sort(out.gaps)
	return out, err
}

// take records the results of a pass.
func (o *outcome) take(s schedulertest.Step) {
	for _, a := range s.Admitted {
		r := &o.records[a.Request]
		r.reused = max(r.reused, a.Reused)
	}
	for _, id := range s.Second {
		o.records[id].second = s.End
	}
	for _, m := range s.Marks {
		r := &o.records[m.Request]
		if m.First {
			r.first = s.End
		}
		if m.Last {
			r.last, r.handoff = s.End, m.Handoff
		}
	}
	o.gaps = append(o.gaps, s.Latencies...)
	if s.Tokens > 0 {
		o.end = s.End
	}
}

// reuse returns the share of prompt tokens that were cached.
func (o *outcome) reuse() float64 {
	reused, input := 0, 0
	for _, r := range o.records {
		reused += r.reused
		input += r.input
	}
	return float64(reused) / float64(input)
}
