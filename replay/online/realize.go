package online

import (
	"sort"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// ends are the latest passes of a worker: when they were to end and when they
// did. They turn spans between planned ends into spans between real ones.
type ends struct {
	planned, real []sim.Time // ascending
}

// keptEnds is the number of passes that are remembered at most; a request that
// was without a token for longer gets its gap in planned time.
const keptEnds = 1 << 14

// realizePass fills real with the pass p as it happened, from begun to ended. Spans
// since the pass before are taken between the instants at which tokens were
// handed out.
func (e *ends) realizePass(p, real *scheduler.Pass, begun, ended sim.Time) {
	gaps := real.Gaps[:0]
	detail := real.Detail
	*real = *p
	real.Start, real.End = begun, ended
	real.Gap = ended - begun
	if n := len(e.real); n > 0 {
		real.Gap = ended - e.real[n-1]
	}
	for _, gap := range p.Gaps {
		gaps = append(gaps, ended-e.realEnd(p.End-gap))
	}
	real.Gaps = gaps
	if real.Detail = nil; p.Detail != nil {
		if detail == nil {
			detail = new(scheduler.Detail)
		}
		*detail = *p.Detail
		detail.PrefillEnd = begun + (p.Detail.PrefillEnd - p.Start)
		real.Detail = detail
	}
	e.addEnd(p.End, ended)
}

func (e *ends) addEnd(planned, real sim.Time) {
	if len(e.real) == 2*keptEnds {
		e.planned = e.planned[:copy(e.planned, e.planned[keptEnds:])]
		e.real = e.real[:copy(e.real, e.real[keptEnds:])]
	}
	e.planned, e.real = append(e.planned, planned), append(e.real, real)
}

// realEnd is when the pass ended that was to end at about planned.
func (e *ends) realEnd(planned sim.Time) sim.Time {
	const slack = 1e-6 // ms: a difference of float64s, added again
	i := sort.Search(len(e.planned), func(i int) bool { return e.planned[i] >= planned-slack })
	if i < len(e.planned) && e.planned[i] <= planned+slack {
		return e.real[i]
	}
	return planned
}
