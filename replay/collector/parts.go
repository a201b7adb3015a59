package collector

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// Part returns a collector that records the passes of requests that have arrived at c. Several goroutines may record
// passes concurrently, each in its part. No two parts may record the same request, and c must not be read before
// AddPart.
func (c *Collector) Part() *Collector {
	if c.fold != nil {
		panic("collector: requests are folded, which one goroutine does")
	}
	p := &Collector{records: c.records, first: c.first, apart: c.apart, window: c.window, windowed: c.windowed}
	p.gaps.grow(64)
	return p
}

// AddPart adds the facts of a part to c. The order of parts does not affect the report.
func (c *Collector) AddPart(p *Collector) {
	c.gaps.addAll(&p.gaps)
	c.spans.addAll(&p.spans)
	if more := len(p.fromHost) - len(c.fromHost); more > 0 {
		c.fromHost = append(c.fromHost, make([]int32, more)...)
	}
	for i, n := range p.fromHost {
		c.fromHost[i] = max(c.fromHost[i], n)
	}
	c.verified, c.drafts, c.accepted = c.verified+p.verified, c.drafts+p.drafts, c.accepted+p.accepted
	c.toHost, c.loaded, c.lostEvents = c.toHost+p.toHost, c.loaded+p.loaded, c.lostEvents+p.lostEvents
	c.clipped, c.clippedTokens = c.clipped+p.clipped, c.clippedTokens+p.clippedTokens
	c.again, c.looked, c.found = c.again+p.again, c.looked+p.looked, c.found+p.found
	c.made += p.made
	for id, n := range p.hits {
		if c.hits == nil {
			c.hits = make(map[sim.RequestID]int32)
		}
		c.hits[id] = n
	}
}

// addAll adds the latencies of other.
func (g *gaps) addAll(other *gaps) {
	for i, bits := range other.bits {
		g.add(sim.Time(math.Float64frombits(bits)), other.counts[i])
	}
}

// addAll adds the latencies of other, which must not be used afterwards.
func (s *spans) addAll(other *spans) {
	s.chunks = append(s.chunks, other.chunks...)
	s.n += other.n
}
