package policy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Filter excludes candidates before they are scored.
type Filter struct {
	Kind FilterKind

	// The following fields are settings of PrefixAffinity. Workers are sticky if they have at least the share Sticky
	// of the prompt's blocks cached, as determined by Match. With the probability Explore, the filter keeps all
	// workers. The filter also keeps all workers if the least loaded sticky worker has more than Behind tokens more
	// to compute than the least loaded other worker. The same applies to more than Slower ms at Throughput tokens per
	// second; 0: never.
	Sticky     float64    `json:",omitempty"`
	Explore    float64    `json:",omitempty"`
	Behind     int64      `json:",omitempty"`
	Slower     sim.Time   `json:",omitempty"`
	Throughput float64    `json:",omitempty"`
	Match      ScorerKind `json:",omitempty"`
	Prefix     `record:"inline"`

	// The following fields are settings of InFlightLimit. InFlightLimit keeps workers with fewer requests than
	// Requests, and with at most Tokens prompt tokens to compute, including the request. A worker without tokens to
	// compute is also kept; 0: no limit.
	Requests float64 `json:",omitempty"`
	Tokens   float64 `json:",omitempty"`
	// The following fields are settings of UsageLimit. UsageLimit keeps workers with fewer waiting requests than
	// Queue and a smaller share of used KV blocks than KV.
	Queue float64 `json:",omitempty"`
	KV    float64 `json:",omitempty"`
}

// FilterKind is the kind of a filter, by llm-d's name.
type FilterKind string

const (
	PrefixAffinity FilterKind = "prefix-cache-affinity-filter" // keeps workers with most of the prompt cached
	InFlightLimit  FilterKind = "concurrency-detector"         // keeps workers with room, by sent requests
	UsageLimit     FilterKind = "utilization-detector"         // keeps workers with room, by their metrics
	SessionFilter  FilterKind = "session-affinity-filter"      // keeps the worker of the session's latest request
)

// FilterKinds returns all kinds of filters.
func FilterKinds() []FilterKind {
	return []FilterKind{PrefixAffinity, InFlightLimit, UsageLimit, SessionFilter}
}

// ReadsTokens reports whether a filter reads the prompt tokens to compute.
func (f *Filter) ReadsTokens() bool { return f.Behind > 0 || f.Slower > 0 || f.Tokens > 0 }

// describe returns the name of a filter with its settings.
func (f *Filter) describe() string {
	text := string(f.Kind)
	if f.Kind == PrefixAffinity {
		text += fmt.Sprintf(" (from %v of the prompt on)", f.Sticky)
	}
	return text
}

// filter is a Filter with its match.
type filter struct {
	Filter
	match *match // for PrefixAffinity
}

// keep appends the workers that the filter keeps. If the filter keeps no worker, keep appends all workers.
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

// takes reports whether the filter keeps a worker.
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

// breaks reports whether the sticky workers have more to compute than the limit. All workers are kept then.
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
