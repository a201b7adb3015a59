package planner

import (
	"math"

	"github.com/replay-llm/replay/scheduler"
)

// capacity is the request rate of a worker at one batch size.
type capacity struct {
	rate     float64 // requests/s
	eligible bool    // the objectives are met
}

// better reports whether c is preferred to an earlier candidate.
func (c capacity) better(old capacity) bool {
	if c.eligible != old.eligible {
		return c.eligible
	}
	return c.rate > old.rate
}

// listSizes returns the batch sizes that a search tries.
func listSizes(most int) []int {
	var all []int
	if most <= mostSizes {
		for n := 1; n <= most; n++ {
			all = append(all, n)
		}
		return all
	}
	for i := range mostSizes {
		all = append(all, 1+i*(most-1)/(mostSizes-1))
	}
	return all
}

// findCapacity returns the highest request rate of a worker that meets the objectives, for requests of mean lengths; the
// highest of all if no rate meets them.
func (m *model) findCapacity(input, output, hits float64) (best capacity, ok bool) {
	if input <= 0 || m.role != scheduler.Prefill && output <= 0 {
		return best, false
	}
	return m.search(shape{
		input: roundUp(input), output: max(roundUp(output), 1),
		fresh: max(roundUp(float64(roundUp(input))*(1-min(max(hits, 0), mostHits))), 1),
	})
}

// shape is the lengths of a request, and its prompt tokens that are not cached.
type shape struct{ input, output, fresh int }

// context returns the tokens of a request halfway through its answer.
func (s *shape) context() int { return max(1, s.input+s.output/2) }

// search tries batches of all sizes.
func (m *model) search(s shape) (best capacity, ok bool) {
	try := map[scheduler.Role]func(shape, int) (capacity, bool, bool){scheduler.Prefill: m.tryPrefill, scheduler.Decode: m.tryDecode, scheduler.Aggregated: m.tryBoth}[m.role]
	for _, n := range listSizes(m.mostBatch(s)) {
		c, counts, known := try(s, n)
		if !known {
			return capacity{}, false
		}
		if counts && (!ok || c.better(best)) {
			best, ok = c, true
		}
	}
	return best, ok
}

// mostBatch returns the largest batch.
func (m *model) mostBatch(s shape) int {
	if m.role == scheduler.Prefill {
		if s.fresh > m.tokens {
			return 1
		}
		return min(m.seqs, m.tokens/s.fresh)
	}
	n := min(m.seqs, m.kv/s.context())
	if m.role == scheduler.Aggregated {
		if m.tokens <= 1 {
			return 0
		}
		n = min(n, m.tokens-1)
	}
	return n
}

// multiplyTokens multiplies, limited to the planner's maximum of token counts.
func multiplyTokens(a, b int) int { return min(a*b, mostTokens) }

// tryPrefill evaluates a batch of n prompts.
func (m *model) tryPrefill(s shape, n int) (c capacity, counts, known bool) {
	t, ok := m.inChunksAlone(multiplyTokens(s.fresh, n))
	return capacity{float64(n) / t, t <= m.ttft}, t > 0, ok
}

// inChunksAlone returns the time for the prompt tokens of one request, in passes of the token budget.
func (m *model) inChunksAlone(tokens int) (float64, bool) {
	return m.inChunks(tokens, work{prefills: 1})
}

// tryDecode evaluates a batch of n decoding requests.
func (m *model) tryDecode(s shape, n int) (c capacity, counts, known bool) {
	t, ok := m.estimate(&work{decodes: n, decodeTokens: multiplyTokens(n, s.context())})
	return capacity{float64(n) / (float64(s.output) * t), t <= m.itl}, t > 0, ok
}

// tryBoth evaluates a batch of n decoding requests, with prompts at the rate at which requests finish.
func (m *model) tryBoth(s shape, n int) (c capacity, counts, known bool) {
	prompts := roundUp(float64(n) * float64(s.fresh) / float64(s.output))
	if prompts > m.tokens-n {
		return c, false, true
	}
	w := work{decodes: n, decodeTokens: multiplyTokens(n, s.context()), prefillTokens: min(m.tokens, prompts)}
	if w.prefillTokens > 0 {
		w.prefills = 1
	}
	t, ok := m.estimate(&w)
	if !ok || t == 0 {
		return c, false, ok
	}
	first, ok := m.inChunks(min(w.prefillTokens+s.fresh, mostTokens), work{prefills: 1, decodes: w.decodes, decodeTokens: w.decodeTokens})
	return capacity{float64(n) / (float64(s.output) * t), first <= m.ttft && t <= m.itl}, !math.IsNaN(t), ok
}
