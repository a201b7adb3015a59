package policy

import (
	"cmp"
	"math"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Prefix configures how a router finds the leading blocks of a prompt that a worker has cached.
type Prefix struct {
	// Speculative is the time for which blocks of a sent prompt count as cached on its worker, if the router follows
	// caches; 0: not at all.
	Speculative sim.Time `json:",omitempty"`
	// Capacity is the number of remembered blocks per worker, if the router remembers sent blocks; 0: the size of its
	// cache. LongestBlocks and Longest are the maximum number of blocks and tokens of a prompt to compare; 0: no
	// limit.
	Capacity      int `json:",omitempty"`
	LongestBlocks int `json:",omitempty"`
	Longest       int `json:",omitempty"`
}

// InFlight configures how a router counts the prompt tokens that its workers have to compute, without tokens that it
// assumes to be cached.
type InFlight struct {
	// Match determines the cached blocks: PrecisePrefix, ApproximatePrefix, or "" for no cached blocks.
	Match  ScorerKind        `json:",omitempty"`
	Prefix `record:"inline"` // of Match
}

// matchKey is the settings of a match.
type matchKey struct {
	kind ScorerKind
	Prefix
}

// match finds the cached blocks of a prompt on every candidate.
type match struct {
	matchKey
	sent    *sent   // sent blocks; nil: not used
	longest int32   // maximum number of blocks to compare; 0: all
	found   []int32 // by worker: leading blocks of the current request
}

func newMatch(key matchKey, o Options) *match {
	m := &match{matchKey: key}
	switch {
	case key.kind == ApproximatePrefix:
		capacity := key.Capacity
		if capacity == 0 {
			capacity = o.CacheBlocks
		}
		m.sent = makeSent(o.Tree, int64(capacity), 0)
		m.longest = int32(min(math.MaxInt32, cmp.Or(key.LongestBlocks, key.Longest/o.BlockTokens)))
	case key.Speculative > 0:
		m.sent = makeSent(o.Tree, 0, key.Speculative)
	}
	return m
}

// limit returns the number of blocks of a request's prompt to compare.
func (m *match) limit(q *sim.Request) int32 {
	if m.longest > 0 {
		return min(m.longest, q.Prompt.Blocks)
	}
	return q.Prompt.Blocks
}

// find sets found for the candidates.
func (m *match) find(q *sim.Request, c *router.Candidates) {
	for _, w := range c.Workers {
		for int(w) >= len(m.found) {
			m.found = append(m.found, 0)
		}
		switch {
		case m.kind == ApproximatePrefix:
			m.found[w] = min(m.sent.match(c.Now, w, &q.Prompt), m.limit(q))
		case m.sent == nil:
			m.found[w] = c.Overlap[w]
		default:
			m.found[w] = max(c.Overlap[w], m.sent.match(c.Now, w, &q.Prompt))
		}
	}
}

// known is the facts of a picker about the current and earlier requests.
type known struct {
	matches     []*match
	charge      *match // determines the prompt tokens to count; nil: the whole prompt
	blockTokens int64
	last        map[int32]sim.WorkerID // by session; nil: not used
}

// matchOf returns the match with the given settings. Equal settings share a match.
func (k *known) matchOf(kind ScorerKind, p Prefix, o Options) *match {
	if kind != PrecisePrefix && kind != ApproximatePrefix {
		return nil
	}
	key := matchKey{kind, p}
	for _, m := range k.matches {
		if m.matchKey == key {
			return m
		}
	}
	k.matches = append(k.matches, newMatch(key, o))
	return k.matches[len(k.matches)-1]
}

// uncached returns the prompt tokens of a request that are not assumed to be cached on w.
func (k *known) uncached(q *sim.Request, w sim.WorkerID) int64 {
	tokens := int64(q.InputTokens)
	if k.charge == nil {
		return tokens
	}
	return max(0, tokens-int64(k.charge.found[w])*k.blockTokens)
}

// lastOf returns the worker of the latest request of q's session, None if there is none.
func (k *known) lastOf(q *sim.Request) sim.WorkerID {
	if w, ok := k.last[q.Session]; ok && q.Session >= 0 {
		return w
	}
	return router.None
}

// note records that a request is sent to w.
func (k *known) note(q *sim.Request, c *router.Candidates, w sim.WorkerID) {
	for _, m := range k.matches {
		if m.sent != nil {
			m.sent.add(c.Now, w, &q.Prompt, m.limit(q))
		}
	}
	if k.last != nil && q.Session >= 0 {
		k.last[q.Session] = w
	}
}
