package policy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Filter leaves out candidates before scores are given.
type Filter struct {
	Kind FilterKind

	// Of PrefixAffinity: workers count as sticky that have at least the share Sticky of the prompt's blocks cached, as
	// Match finds them. With the probability Explore the filter keeps all. It also keeps all workers if the least
	// loaded sticky worker has more than Behind tokens more to compute than the other workers, or more than Slower ms
	// at Throughput tokens a second; 0: never.
	Sticky     float64    `json:",omitempty"`
	Explore    float64    `json:",omitempty"`
	Behind     int64      `json:",omitempty"`
	Slower     sim.Time   `json:",omitempty"`
	Throughput float64    `json:",omitempty"`
	Match      ScorerKind `json:",omitempty"`
	Prefix     `record:"inline"`

	// Of InFlightLimit: workers with fewer requests than Requests, and at most Tokens prompt tokens to compute with
	// those of the request, or none without it; 0: any.
	Requests float64 `json:",omitempty"`
	Tokens   float64 `json:",omitempty"`
	// Of UsageLimit: workers with fewer waiting requests than Queue and a smaller share of KV blocks in use than KV.
	Queue float64 `json:",omitempty"`
	KV    float64 `json:",omitempty"`
}

// FilterKind is what a filter reads, by llm-d's name.
type FilterKind string

const (
	PrefixAffinity FilterKind = "prefix-cache-affinity-filter" // workers with most of the prompt cached
	InFlightLimit  FilterKind = "concurrency-detector"         // workers with room by what the router has sent
	UsageLimit     FilterKind = "utilization-detector"         // workers with room by what they report
	SessionFilter  FilterKind = "session-affinity-filter"      // the worker of the session's last request
)

// FilterKinds returns all kinds of filters.
func FilterKinds() []FilterKind {
	return []FilterKind{PrefixAffinity, InFlightLimit, UsageLimit, SessionFilter}
}

// ReadsTokens reports whether a filter reads prompt tokens to compute.
func (f *Filter) ReadsTokens() bool { return f.Behind > 0 || f.Slower > 0 || f.Tokens > 0 }

// describe names a filter with its settings.
func (f *Filter) describe() string {
	text := string(f.Kind)
	if f.Kind == PrefixAffinity {
		text += fmt.Sprintf(" (from %v of the prompt on)", f.Sticky)
	}
	return text
}

// filter is a Filter at work.
type filter struct {
	Filter
	match *match // of PrefixAffinity
}

// keep appends the workers that a filter keeps to kept, all of them where it would keep none.
func (f *filter) keep(q *sim.Request, c *router.Candidates, known *known, r *rand.Rand, kept []sim.WorkerID) []sim.WorkerID {
	from := len(kept)
	if f.Kind == PrefixAffinity && (len(c.Workers) < 2 || f.Sticky <= 0 || f.Explore > 0 && r.Float64() < f.Explore) {
		return append(kept, c.Workers...)
	}
	for _, w := range c.Workers {
		if f.takes(q, c, known, w) {
			kept = append(kept, w)
		}
	}
	if len(kept) == from || f.Kind == PrefixAffinity && f.breaks(c, kept[from:]) {
		return append(kept[:from], c.Workers...)
	}
	return kept
}

// takes reports whether a worker passes.
func (f *filter) takes(q *sim.Request, c *router.Candidates, known *known, w sim.WorkerID) bool {
	switch f.Kind {
	case PrefixAffinity:
		blocks := f.match.limit(q)
		return blocks > 0 && float64(f.match.found[w])/float64(blocks) >= f.Sticky
	case InFlightLimit:
		if f.Requests > 0 && float64(c.Running[w]) >= f.Requests {
			return false
		}
		load := c.Tokens[w]
		return f.Tokens == 0 || load == 0 || float64(load) < f.Tokens && float64(load+known.uncached(q, w)) <= f.Tokens
	case UsageLimit:
		return float64(c.Metrics[w].Waiting) < f.Queue && c.Metrics[w].KV < f.KV
	}
	return known.lastOf(q) == w
}

// breaks reports whether the sticky workers have more to compute than the limit, so that all workers are kept.
func (f *filter) breaks(c *router.Candidates, sticky []sim.WorkerID) bool {
	if len(sticky) == len(c.Workers) || f.Behind == 0 && f.Slower == 0 {
		return false
	}
	here, there := int64(math.MaxInt64), int64(math.MaxInt64)
	i := 0
	for _, w := range c.Workers {
		if i < len(sticky) && sticky[i] == w {
			here, i = min(here, c.Tokens[w]), i+1
			continue
		}
		there = min(there, c.Tokens[w])
	}
	if f.Behind > 0 && here-there > f.Behind {
		return true
	}
	took := func(tokens int64) float64 { return float64(tokens) / f.Throughput * 1000 }
	return f.Slower > 0 && took(here)-took(there) > float64(f.Slower)
}
