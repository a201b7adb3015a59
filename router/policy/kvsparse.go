package policy

import (
	"math"
	"math/bits"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// sparsely is a search for the candidate with the lowest cost among many workers. sparsely does not visit the workers
// in the order of their ids.
type sparsely struct {
	*kv
	job
	c               *router.Candidates
	overlap, active *router.Sparse
	by              *router.Ladder
	best            router.Choice // Worker and Second are None until they are found
}

// findSparsely returns the candidate with the lowest cost, the first among equals. findSparsely computes the cost of
// the workers that are listed for the prompt. findSparsely reads all other workers, kind by kind, in order of load,
// until no other worker of the kind can win.
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

// searchKind weighs the workers of one kind. overlaps selects workers that share cached blocks of the prompt, and
// isActive workers that share active blocks.
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

// keepKind returns the workers of a word that are in a set, or those workers that are not.
func keepKind(word uint64, set []uint64, i int, in bool) uint64 {
	switch {
	case set == nil:
		return word
	case in:
		return word & set[i]
	}
	return word &^ set[i]
}

// weighWord weighs the workers of a word that are not listed. Idle workers are equal, so it stops after an idle
// worker that is not among the best two, and reports whether it stopped.
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

// kind is workers with the same cached and active blocks of the prompt.
type kind struct {
	idle     float64 // cost on an idle worker
	share    float64 // share of the load that always counts
	free     float64 // blocks of load that may not count
	rounding float64 // relative to the cost on a loaded worker and to the prompt
	prompt   float64
}

func (s *sparsely) makeKind(overlap, active int32) kind {
	k := kind{idle: s.costOn(s.job, state{blocks: int64(active), overlap: overlap, active: active}), share: 1, free: float64(active), rounding: 1e-9}
	if s.config.TrackPrefillTokens { // otherwise no tokens count
		blocks := max(float64(s.job.tokens)/float64(s.blockTokens), float64(overlap))
		k.share, k.prompt = min(s.config.PrefillLoadScale, 1), s.config.PrefillLoadScale*blocks
		k.free += max(s.config.OverlapScoreCredit*float64(overlap)-blocks, 0) // credit in excess of the prompt
	}
	return k
}

// leastCost returns a lower bound of the cost on a worker with the given load, in blocks.
func (k *kind) leastCost(load int64) float64 {
	bound := k.idle + k.share*max(float64(load)-k.free, 0)
	return bound - k.rounding*(bound+k.prompt)
}

// weigh computes the cost of the job on a candidate. A candidate may be weighed twice.
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

// isBefore reports whether worker w is before other, by cost, then by id. Every worker is before None.
func (s *sparsely) isBefore(cost float64, w sim.WorkerID, than float64, other sim.WorkerID) bool {
	return cost < than || other == router.None || cost == than && w < other
}
