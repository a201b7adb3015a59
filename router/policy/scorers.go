package policy

import (
	"cmp"
	"math"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Scorer gives each worker a score from 0 to 1.
type Scorer struct {
	Kind   ScorerKind
	Weight float64

	// Of PrecisePrefix: whether blocks count between the fewest and the most of the workers
	// that have any, as llm-d's router had it at first, and not as a share of the prompt's;
	// and how long the blocks of a prompt count as cached where it was sent; 0: not at all.
	Relative    bool     `json:",omitempty"`
	Speculative sim.Time `json:",omitempty"`
	// Of ApproximatePrefix: how many blocks are remembered of each worker, 0: as many as its
	// cache has; and the blocks of a prompt beyond which nothing is looked at, or the tokens, 0:
	// none.
	Capacity      int `json:",omitempty"`
	LongestBlocks int `json:",omitempty"`
	Longest       int `json:",omitempty"`

	Full int     `json:",omitempty"` // of LoadAware: waiting requests that are scored 0, > 0
	Idle int     `json:",omitempty"` // of ActiveRequests: requests that are scored 1 like none
	Busy float64 `json:",omitempty"` // of ActiveRequests: the most that a worker with more gets, 0 to 1
}

// ScorerKind is what a scorer looks at, by llm-d's name.
type ScorerKind string

const (
	PrecisePrefix     ScorerKind = "precise-prefix-cache-scorer"  // leading blocks of the prompt that are cached
	ApproximatePrefix ScorerKind = "prefix-cache-scorer"          // those sent there of late
	FreeKV            ScorerKind = "kv-cache-utilization-scorer"  // KV blocks that no request holds
	ShortQueue        ScorerKind = "queue-scorer"                 // waiting requests, beside the other workers'
	FewRunning        ScorerKind = "running-requests-size-scorer" // running requests, beside the others'
	LoadAware         ScorerKind = "load-aware-scorer"            // waiting requests, beside a fixed number
	ActiveRequests    ScorerKind = "active-request-scorer"        // requests that the router sent and that are not over
)

// ScorerKinds returns all kinds of scorers.
func ScorerKinds() []ScorerKind {
	return []ScorerKind{PrecisePrefix, ApproximatePrefix, FreeKV, ShortQueue, FewRunning, LoadAware, ActiveRequests}
}

// readsMetrics reports whether a scorer looks at what workers report of themselves.
func (k ScorerKind) readsMetrics() bool {
	return k == FreeKV || k == ShortQueue || k == FewRunning || k == LoadAware
}

// scorer is a Scorer at work.
type scorer struct {
	Scorer
	sent        *sent // what was sent where; nil where that does not matter
	longest     int32 // blocks of a prompt that are looked at; 0: all
	counts      []int32
	least, most int32 // of counts; where Relative, of those > 0
}

func makeScorer(s Scorer, o Options) scorer {
	all := scorer{Scorer: s}
	switch {
	case s.Kind == ApproximatePrefix:
		capacity := s.Capacity
		if capacity == 0 {
			capacity = o.CacheBlocks
		}
		all.sent = makeSent(o.Tree, int64(capacity), 0)
		all.longest = int32(min(math.MaxInt32, cmp.Or(s.LongestBlocks, s.Longest/o.BlockTokens)))
	case s.Kind == PrecisePrefix && s.Speculative > 0:
		all.sent = makeSent(o.Tree, 0, s.Speculative)
	}
	return all
}

// addScores adds the weighted scores of the candidates for a request to their totals.
func (s *scorer) addScores(q *sim.Request, c *router.Candidates, totals []float64) {
	s.count(q, c)
	for i, w := range c.Workers {
		x := 0.0
		if s.Kind == FreeKV {
			x = 1 - c.Metrics[w].KV
		} else {
			x = s.score(s.counts[i], s.limit(q))
		}
		totals[i] += float64(s.Weight * x)
	}
}

// limit returns how many blocks of a request's prompt are looked at.
func (s *scorer) limit(q *sim.Request) int32 {
	if s.longest > 0 {
		return min(s.longest, q.Prompt.Blocks)
	}
	return q.Prompt.Blocks
}

// count fills counts, least and most.
func (s *scorer) count(q *sim.Request, c *router.Candidates) {
	s.counts, s.least, s.most = s.counts[:0], 0, 0
	any := false
	for _, w := range c.Workers {
		n := s.countOn(q, c, w)
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
func (s *scorer) countOn(q *sim.Request, c *router.Candidates, w sim.WorkerID) int32 {
	switch s.Kind {
	case ShortQueue, LoadAware:
		return c.Metrics[w].Waiting
	case FewRunning:
		return c.Metrics[w].Running
	case ActiveRequests:
		return c.Running[w]
	case ApproximatePrefix:
		return min(s.sent.match(c.Now, w, &q.Prompt), s.limit(q))
	case PrecisePrefix:
		if s.sent == nil {
			return c.Overlap[w]
		}
		return max(c.Overlap[w], s.sent.match(c.Now, w, &q.Prompt))
	}
	return 0
}

// score returns the score of a worker on which n are counted, with blocks of the prompt to
// look at.
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

// noteChoice notes that a request goes to w.
func (s *scorer) noteChoice(q *sim.Request, c *router.Candidates, w sim.WorkerID) {
	if s.sent != nil {
		s.sent.add(c.Now, w, &q.Prompt, s.limit(q))
	}
}

// placeBetween returns where n lies from least to most, 1 where they are one.
func placeBetween(n, least, most int32) float64 {
	if most == least {
		return 1
	}
	return float64(n-least) / float64(most-least)
}
