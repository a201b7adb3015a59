package policy

import (
	"math"
	"math/bits"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// sparsely is a search for the candidate of least cost among many workers, in an order other than that of their ids.
type sparsely struct {
	*kv
	job
	c               *router.Candidates
	overlap, active *router.Sparse
	by              *router.Ladder
	best            router.Choice // Worker and Second are None until there are any
}

// findSparsely returns the candidate of least cost, the first among equals. It computes the cost of the workers that
// have a part of the prompt. Of all other workers it reads each kind in order of load, until no other worker of that
// kind can win.
func (p *kv) findSparsely(j job, c *router.Candidates) router.Choice {
	s := sparsely{
		kv: p, job: j, c: c,
		best: router.Choice{Worker: router.None, Second: router.None, Cost: math.Inf(1), SecondCost: math.Inf(1)},
	}
	s.overlap, s.active, s.by = c.Sparse()
	s.weighListed(s.overlap.Listed())
	s.weighListed(s.active.Listed())
	sharers, _ := s.overlap.Sharers()
	active, _ := s.active.Sharers()
	for _, overlaps := range []bool{true, false} {
		for _, isActive := range []bool{true, false} {
			if (sharers != nil || !overlaps) && (active != nil || !isActive) {
				s.searchKind(overlaps, isActive)
			}
		}
	}
	if s.best.Second == router.None {
		s.best.SecondCost = 0
	}
	return s.best
}

func (s *sparsely) weighListed(listed []sim.WorkerID) {
	for _, w := range listed {
		if s.by.Has(w) {
			s.weigh(w)
		}
	}
}

// searchKind weighs workers that share blocks of the prompt in caches or do not, and in requests that run or do not.
func (s *sparsely) searchKind(overlaps, isActive bool) {
	sharers, overlap := s.overlap.Sharers()
	running, active := s.active.Sharers()
	if !overlaps {
		overlap = 0
	}
	if !isActive {
		active = 0
	}
	k := s.makeKind(overlap, active)
	for rung := s.by.Next(0); rung >= 0 && (s.best.Second == router.None || k.leastCost(s.by.Least(rung)) <= s.best.SecondCost); rung = s.by.Next(rung + 1) {
		for i, word := range s.by.Workers(rung) {
			if word == 0 {
				continue
			}
			if word = keepKind(keepKind(word, sharers, i, overlaps), running, i, isActive); word != 0 && s.weighWord(i, word, rung == 0) {
				break
			}
		}
	}
}

// keepKind returns the workers of a word that are in a set, or are not.
func keepKind(word uint64, set []uint64, i int, in bool) uint64 {
	switch {
	case set == nil:
		return word
	case in:
		return word & set[i]
	}
	return word &^ set[i]
}

// weighWord weighs the workers of a word that are not listed. Of idle workers, which are equal, it weighs those among
// the best, and reports whether there was another.
func (s *sparsely) weighWord(i int, word uint64, idle bool) (enough bool) {
	for ; word != 0; word &= word - 1 {
		w := sim.WorkerID(64*i + bits.TrailingZeros64(word))
		if s.overlap.IsListed(w) || s.active.IsListed(w) {
			continue
		}
		if s.weigh(w); idle && w != s.best.Worker && w != s.best.Second {
			return true
		}
	}
	return false
}

// kind is workers that have as much of the prompt.
type kind struct {
	idle     float64 // cost on an idle one
	share    float64 // of the load that counts at least
	free     float64 // blocks of load that need not count
	rounding float64 // of the cost on a loaded one, in parts of it and of the prompt
	prompt   float64
}

func (s *sparsely) makeKind(overlap, active int32) kind {
	k := kind{idle: s.costOn(s.job, state{blocks: int64(active), overlap: overlap, active: active}), share: 1, free: float64(active), rounding: 1e-9}
	if s.config.TrackPrefillTokens { // else there are no tokens to compute
		blocks := max(float64(s.job.tokens)/float64(s.blockTokens), float64(overlap))
		k.share, k.prompt = min(s.config.PrefillLoadScale, 1), s.config.PrefillLoadScale*blocks
		k.free += max(s.config.OverlapScoreCredit*float64(overlap)-blocks, 0) // credit for more than the prompt
	}
	return k
}

// leastCost returns a lower bound of the cost on a worker with a load, in blocks: blocks of requests, or prompt tokens
// to compute times their scale.
func (k *kind) leastCost(load int64) float64 {
	bound := k.idle + k.share*max(float64(load)-k.free, 0)
	return bound - k.rounding*(bound+k.prompt)
}

// weigh works out what the job costs on a candidate, which may have been weighed before.
func (s *sparsely) weigh(w sim.WorkerID) {
	if w == s.best.Worker || w == s.best.Second {
		return
	}
	cost := s.costOn(s.job, state{s.c.Tokens[w], s.c.Blocks[w], s.overlap.On(w), s.active.On(w)})
	switch {
	case s.isBefore(cost, w, s.best.Cost, s.best.Worker):
		s.best.Second, s.best.SecondCost = s.best.Worker, s.best.Cost
		s.best.Worker, s.best.Cost = w, cost
	case s.isBefore(cost, w, s.best.SecondCost, s.best.Second):
		s.best.Second, s.best.SecondCost = w, cost
	}
}

// isBefore reports whether a worker is before another, or None, in order of cost, then of ids.
func (s *sparsely) isBefore(cost float64, w sim.WorkerID, than float64, other sim.WorkerID) bool {
	return cost < than || other == router.None || cost == than && w < other
}
