package policy

import (
	"slices"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Scorer gives each worker a score from 0 to 1.
type Scorer struct {
	Kind   ScorerKind
	Weight float64

	// Relative is a setting of PrecisePrefix. If Relative is set, the score is the position of the cached blocks
	// between the minimum and the maximum of all workers with cached blocks, as in early versions of llm-d's router.
	// If Relative is not set, the score is the cached share of the prompt's blocks.
	Relative bool              `json:",omitempty"`
	Prefix   `record:"inline"` // for PrecisePrefix and ApproximatePrefix

	Match ScorerKind `json:",omitempty" record:"omitzero"` // for NoHitLRU: determines cached blocks, with Prefix

	// Full is the number of waiting requests (LoadAware, > 0) or tokens (TokenLoad) with the score 0. For NoHitLRU,
	// Full is the number of remembered workers.
	Full int     `json:",omitempty"`
	Idle int     `json:",omitempty"` // for ActiveRequests: requests up to this number have the score 1
	Busy float64 `json:",omitempty"` // for ActiveRequests: maximum score of a worker with more requests, 0 to 1
}

// ScorerKind is the kind of a scorer, by llm-d's name.
type ScorerKind string

const (
	PrecisePrefix     ScorerKind = "precise-prefix-cache-scorer"  // leading cached blocks of the prompt
	ApproximatePrefix ScorerKind = "prefix-cache-scorer"          // leading blocks of the prompt recently sent there
	FreeKV            ScorerKind = "kv-cache-utilization-scorer"  // unused KV blocks
	ShortQueue        ScorerKind = "queue-scorer"                 // waiting requests, relative to other workers
	FewRunning        ScorerKind = "running-requests-size-scorer" // running requests, relative to other workers
	LoadAware         ScorerKind = "load-aware-scorer"            // waiting requests, relative to a constant
	ActiveRequests    ScorerKind = "active-request-scorer"        // unfinished requests that the router sent
	TokenLoad         ScorerKind = "token-load-scorer"            // prompt tokens to compute, including the request
	SessionAffinity   ScorerKind = "session-affinity-scorer"      // whether the session's latest request was sent there
	NoHitLRU          ScorerKind = "no-hit-lru-scorer"            // time since a request without a hit was sent there
)

// ScorerKinds returns all kinds of scorers.
func ScorerKinds() []ScorerKind {
	return []ScorerKind{PrecisePrefix, ApproximatePrefix, FreeKV, ShortQueue, FewRunning, LoadAware, ActiveRequests, TokenLoad, SessionAffinity, NoHitLRU}
}

// readsMetrics reports whether a scorer reads the metrics of workers.
func (k ScorerKind) readsMetrics() bool {
	return k == FreeKV || k == ShortQueue || k == FewRunning || k == LoadAware
}

// scorer is a Scorer with its state.
type scorer struct {
	Scorer
	match       *match // for PrecisePrefix, ApproximatePrefix and NoHitLRU
	counts      []int32
	least, most int32 // of counts; if Relative is set, of counts > 0

	// The following fields are for NoHitLRU.
	isCold bool           // the current request has no cached blocks on any worker
	cold   []sim.WorkerID // workers that such requests were sent to, the least recent first
	place  []int32        // by worker: index in cold + 1; 0: none
}

// addScores adds the weighted scores of the candidates for a request to their totals.
func (s *scorer) addScores(q *sim.Request, c *router.Candidates, known *known, totals []float64) {
	switch s.Kind {
	case FreeKV, TokenLoad, SessionAffinity:
		for i, w := range c.Workers {
			totals[i] += float64(s.Weight * s.scoreAlone(q, c, known, w))
		}
		return
	case NoHitLRU:
		s.addColdScores(c, totals)
		return
	}
	s.count(c)
	blocks := q.Prompt.Blocks
	if s.match != nil {
		blocks = s.match.limit(q)
	}
	for i := range c.Workers {
		totals[i] += float64(s.Weight * s.score(s.counts[i], blocks))
	}
}

// addColdScores adds scores by the order in which workers were last sent requests without cached blocks. Workers that
// were sent none have the highest scores. All scores are equal if the current request has cached blocks on any
// worker.
func (s *scorer) addColdScores(c *router.Candidates, totals []float64) {
	s.isCold = s.match == nil || !slices.ContainsFunc(c.Workers, func(w sim.WorkerID) bool { return s.match.found[w] > 0 })
	unused := 0
	for _, w := range c.Workers {
		for int(w) >= len(s.place) {
			s.place = append(s.place, 0)
		}
		if s.place[w] == 0 {
			unused++
		}
	}
	next := 0
	for i, w := range c.Workers {
		rank := unused + int(s.place[w]) - 1
		if s.place[w] == 0 {
			rank = next
			next++
		}
		score := 0.5
		switch {
		case s.isCold && len(c.Workers) == 1:
			score = 1
		case s.isCold:
			score = max(0, 1-float64(rank)/float64(len(c.Workers)-1))
		}
		totals[i] += float64(s.Weight * score)
	}
}

// noteCold records that the current request is sent to w.
func (s *scorer) noteCold(w sim.WorkerID) {
	if s.Kind != NoHitLRU || !s.isCold {
		return
	}
	s.cold = append(slices.DeleteFunc(s.cold, func(x sim.WorkerID) bool { return x == w }), w)
	if len(s.cold) > s.Full {
		s.place[s.cold[0]] = 0
		s.cold = slices.Delete(s.cold, 0, 1)
	}
	for i, x := range s.cold {
		s.place[x] = int32(i + 1)
	}
}

// scoreAlone returns a score that does not depend on other workers.
func (s *scorer) scoreAlone(q *sim.Request, c *router.Candidates, known *known, w sim.WorkerID) float64 {
	switch s.Kind {
	case TokenLoad:
		load := c.Tokens[w] + known.uncached(q, w)
		return 1 - min(1, float64(load)/float64(s.Full))
	case SessionAffinity:
		if known.lastOf(q) == w {
			return 1
		}
		return 0
	}
	return 1 - c.Metrics[w].KV
}

// count sets counts, least and most.
func (s *scorer) count(c *router.Candidates) {
	s.counts, s.least, s.most = s.counts[:0], 0, 0
	any := false
	for _, w := range c.Workers {
		n := s.countOn(c, w)
		s.counts = append(s.counts, n)
		if s.Relative && n == 0 {
			continue
		}
		if !any {
			s.least, s.most, any = n, n, true
		}
		s.least, s.most = min(s.least, n), max(s.most, n)
	}
}

// countOn returns the scorer's count for a worker.
func (s *scorer) countOn(c *router.Candidates, w sim.WorkerID) int32 {
	switch s.Kind {
	case ShortQueue, LoadAware:
		return c.Metrics[w].Waiting
	case FewRunning:
		return c.Metrics[w].Running
	case ActiveRequests:
		return c.Running[w]
	}
	return s.match.found[w]
}

// score returns the score of a worker with the count n. blocks is the number of blocks of the prompt to compare.
func (s *scorer) score(n, blocks int32) float64 {
	switch s.Kind {
	case ShortQueue, FewRunning:
		return placeBetween(s.most-n, 0, s.most-s.least)
	case LoadAware:
		return 0.5 * (1 - min(1, float64(n)/float64(s.Full)))
	case ActiveRequests:
		if int(n) <= s.Idle {
			return 1
		}
		return s.Busy * (float64(s.most-n) / float64(s.most))
	}
	switch {
	case n == 0:
		return 0
	case s.Relative:
		return placeBetween(n, s.least, s.most)
	}
	return float64(n) / float64(blocks)
}

// placeBetween returns the position of n between least and most, from 0 to 1. The result is 1 if least equals most.
func placeBetween(n, least, most int32) float64 {
	if most == least {
		return 1
	}
	return float64(n-least) / float64(most-least)
}
