package formats

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/sim"
)

// pacer makes arrivals for a file that has none: gaps of an exponential law.
type pacer struct {
	random *rand.Rand
	rate   float64 // per ms
	at     float64
}

// paceArrivals makes up arrivals for a format that has none, if a rate was asked
// for.
func (s *Stream) paceArrivals() {
	s.Untimed = s.o.Rate <= 0
	if !s.Untimed {
		s.pacer = &pacer{random: sim.NewRand(s.o.Seed, "formats/arrivals"), rate: s.o.Rate / 1000}
	}
}

// arrivePaced gives r the next made-up arrival, if there are to be any.
func (s *Stream) arrivePaced(r *Record) {
	if s.pacer == nil {
		return
	}
	r.arrives(stamp{ms: s.pacer.at})
	s.pacer.at += s.pacer.random.ExpFloat64() / s.pacer.rate
}
