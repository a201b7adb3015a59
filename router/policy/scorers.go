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

	// Of PrecisePrefix: whether blocks count between the fewest and the most of the workers
	// that have any, as llm-d's router had it at first, and not as a share of the prompt's.
	Relative bool              `json:",omitempty"`
	Prefix   `record:"inline"` // of PrecisePrefix and ApproximatePrefix

	Match ScorerKind `json:",omitempty" record:"omitzero"` // of NoHitLRU: finds what is cached, by Prefix

	Full int     `json:",omitempty"` // of LoadAware: waiting requests that are scored 0, > 0; of TokenLoad: tokens; of NoHitLRU: workers that are remembered
	Idle int     `json:",omitempty"` // of ActiveRequests: requests that are scored 1 like none
	Busy float64 `json:",omitempty"` // of ActiveRequests: the most that a worker with more gets, 0 to 1
}

// ScorerKind is what a scorer reads, by llm-d's name.
type ScorerKind string

const (
	PrecisePrefix     ScorerKind = "precise-prefix-cache-scorer"  // leading blocks of the prompt that are cached
	ApproximatePrefix ScorerKind = "prefix-cache-scorer"          // those sent there of late
	FreeKV            ScorerKind = "kv-cache-utilization-scorer"  // KV blocks that no request holds
	ShortQueue        ScorerKind = "queue-scorer"                 // waiting requests, compared with the other workers'
	FewRunning        ScorerKind = "running-requests-size-scorer" // running requests, compared with those of the other workers
	LoadAware         ScorerKind = "load-aware-scorer"            // waiting requests, compared with a fixed number
	ActiveRequests    ScorerKind = "active-request-scorer"        // requests that the router sent and that are not over
	TokenLoad         ScorerKind = "token-load-scorer"            // prompt tokens still to compute, those of the request included
	SessionAffinity   ScorerKind = "session-affinity-scorer"      // whether the session's last request went there
	NoHitLRU          ScorerKind = "no-hit-lru-scorer"            // how long ago a request that was cached nowhere went there
)

// ScorerKinds returns all kinds of scorers.
func ScorerKinds() []ScorerKind {
	return []ScorerKind{PrecisePrefix, ApproximatePrefix, FreeKV, ShortQueue, FewRunning, LoadAware, ActiveRequests, TokenLoad, SessionAffinity, NoHitLRU}
}

// readsMetrics reports whether a scorer reads what workers report of themselves.
func (k ScorerKind) readsMetrics() bool {
	return k == FreeKV || k == ShortQueue || k == FewRunning || k == LoadAware
}

// scorer is a Scorer at work.
type scorer struct {
	Scorer
	match       *match // of PrecisePrefix, ApproximatePrefix and NoHitLRU
	counts      []int32
	least, most int32 // of counts; where Relative, of those > 0

	// Of NoHitLRU.
	isCold bool           // the request in hand is cached nowhere
	cold   []sim.WorkerID // to which such requests went, the one used longest ago first
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

// addColdScores adds scores by the order in which workers were sent requests that were cached nowhere, and the same score for all of a request
// that is cached anywhere. Workers that were sent none come first.
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

// noteCold notes that the request in hand goes to w.
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

// scoreAlone returns the score of a worker that does not depend on other workers.
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

// count fills counts, least and most.
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

// countOn returns what the scorer counts on a worker.
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

// score returns the score of a worker on which n are counted, with blocks of the prompt to
// read.
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

// placeBetween returns where n lies from least to most, 1 where they are one.
func placeBetween(n, least, most int32) float64 {
	if most == least {
		return 1
	}
	return float64(n-least) / float64(most-least)
}
