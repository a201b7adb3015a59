package edit

import (
	"math"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats"
)

// Anonymize removes names, ids and exact times from a trace.
type Anonymize struct {
	// RoundMS is the multiple in ms to which times are rounded. 0 means no rounding.
	RoundMS float64
	// First is the earliest arrival in ms. This arrival becomes 0.
	First float64
	// IDs maps the ids of the trace to new ids. Several traces can share IDs. nil means a new mapping that starts at
	// 0.
	IDs *formats.Dense
}

// Run writes the trace with new names and ids. Lengths, arrival times and shared prefixes do not change, so they can
// still identify a trace.
func (p Anonymize) Run(from Source, to Sink) error {
	names, agents := make(map[string]int), make(map[string]int)
	ids := p.IDs
	var name []byte
	delays := newDelays(true)
	return eachRecord(from, func(s *formats.Stream, r *formats.Record) error {
		if ids == nil {
			ids = formats.NewDense(s.Block)
		}
		ids.Apply(r)
		delays.fix(r)
		if r.HasAt {
			r.At = p.round(r.At - p.First)
		}
		r.Delay = p.round(r.Delay)
		if r.Session != nil {
			name = appendNumber(names, r.Session, append(name[:0], 's'))
			r.Session, r.Group = name, name
		}
		if r.Name != "" { // requests get new names when they are written
			group := string(r.Group)
			name = appendNumber(names, r.Group, append(name[:0], 'p'))
			r.Group, r.Agent = name, string(appendNumber(agents, []byte(group+"/"+r.Agent), []byte{'s'}))
			for i := range r.After {
				r.After[i].Delay = p.round(r.After[i].Delay)
			}
		}
		return to.Write(r)
	})
}

// appendNumber appends the number of a name to dst. Names are numbered in the order of their first appearance.
func appendNumber(names map[string]int, name, dst []byte) []byte {
	n, ok := names[string(name)]
	if !ok {
		n = len(names)
		names[string(name)] = n
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

func (p *Anonymize) round(ms float64) float64 {
	if p.RoundMS <= 0 {
		return ms
	}
	return math.Round(ms/p.RoundMS) * p.RoundMS
}
