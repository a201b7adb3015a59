package edit

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/loadgen/formats"
)

// Scale changes the arrival rate and the lengths of requests. A factor of 0 means 1.
type Scale struct {
	Rate   float64 // factor of the arrival rate
	Delays float64 // factor of the delays within sessions
	Input  float64 // factor of prompt lengths; ids are changed accordingly
	Output float64 // factor of output lengths
}

// Run writes the scaled trace.
func (p Scale) Run(from Source, to Sink) error {
	for _, f := range []struct {
		name  string
		value *float64
	}{{"rate", &p.Rate}, {"delays", &p.Delays}, {"input", &p.Input}, {"output", &p.Output}} {
		if *f.value == 0 {
			*f.value = 1
		}
		if !(*f.value > 0) || math.IsInf(*f.value, 0) {
			return fmt.Errorf("factor of %s is %v, must be a finite number > 0", f.name, *f.value)
		}
	}
	var in, out *formats.Stretch
	delays := newDelays(p.Rate != 1 || p.Delays != 1)
	return eachRecord(from, func(s *formats.Stream, r *formats.Record) error {
		if in == nil {
			in, out = formats.NewStretch(s.Block, p.Input), formats.NewStretch(s.Block, p.Output)
		}
		delays.fix(r)
		r.Quicken(p.Rate, p.Delays)
		if math.IsInf(r.At, 0) || math.IsInf(r.Delay, 0) {
			return fmt.Errorf("%s:%d: the arrival or delay becomes infinite, must be a smaller factor", s.Name, r.Line)
		}
		if p.Input != 1 {
			in.Apply(r)
		}
		r.Output = out.Scale(r.Output)
		return to.Write(r)
	})
}

// delays replaces the arrivals of later turns by delays. Arrivals can then be scaled without a change of the delays.
type delays struct {
	on    bool
	turns map[string]turnEnd
}

type turnEnd struct {
	at  float64
	has bool
}

func newDelays(on bool) *delays { return &delays{on, make(map[string]turnEnd)} }

func (d *delays) fix(r *formats.Record) {
	if !d.on || r.Session == nil {
		return
	}
	end, known := d.turns[string(r.Session)]
	if known && !r.HasDelay && r.HasAt && end.has {
		r.HasDelay, r.Delay = true, r.At-end.at
	}
	if r.HasAt {
		end = turnEnd{r.At, true}
	}
	d.turns[string(r.Session)] = end
	if known && r.HasDelay {
		r.HasAt, r.At = false, 0
	}
}
