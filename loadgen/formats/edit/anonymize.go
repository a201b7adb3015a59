package edit

import (
	"math"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats"
)

// Anonymize takes names, ids and exact times out of a trace.
type Anonymize struct {
	// RoundMS rounds times to multiples of this number of ms; 0: they stay.
	RoundMS float64
	// First is the earliest arrival, which becomes 0.
	First float64
	// IDs has the numbers that ids were given before and gets the new ones; nil:
	// it begins at 0 and is forgotten.
	IDs *formats.Dense
}

// Run writes the trace with other names and ids. Lengths, times and what prompts
// share stay: they can identify, too.
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
		if r.Name != "" { // requests get their numbers when they are written
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

// appendNumber appends the number of a name, in the order in which they came.
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
