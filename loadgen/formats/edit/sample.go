package edit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/inspect"
)

// Sample has the conditions for sessions to keep. A session must meet all conditions.
type Sample struct {
	// Fraction is the probability to keep a session, 0 to 1. With the same seed, a larger fraction keeps all sessions
	// of a smaller fraction. 0 keeps all.
	Fraction float64
	// Sessions is the number of sessions to keep, randomly selected. 0 keeps all.
	Sessions int
	// Head is the number of sessions to keep from the start of the file. 0 keeps all.
	Head int
	// From and To limit the first arrival of a session, in ms. If To is 0, there is no upper limit.
	From, To float64
	// Rescale multiplies arrivals by the share of kept sessions. The sample then has about the arrival rate of the
	// trace.
	Rescale bool
	// KeepPrefixes keeps or drops sessions with at least MinShared shared leading blocks together. Blocks that occur
	// in more than the share Common of all sessions do not count.
	KeepPrefixes bool
	MinShared    int
	Common       float64
	Seed         uint64
}

// Kept has statistics of a trace and of its sample.
type Kept struct {
	Sessions, OfSessions    inspect.Figure
	Requests, OfRequests    int64
	Reuse, OfReuse          float64 // share of prompt tokens that an infinite cache reuses
	ReuseKnown, Approximate bool
}

func (p *Sample) check() error {
	switch {
	case !(p.Fraction >= 0 && p.Fraction <= 1):
		return fmt.Errorf("fraction is %v, must be 0 to 1", p.Fraction)
	case p.Sessions < 0 || p.Head < 0:
		return fmt.Errorf("sessions are %d and head is %d, must be >= 0", p.Sessions, p.Head)
	case p.KeepPrefixes && (p.MinShared < 1 || !(p.Common > 0 && p.Common <= 1)):
		return fmt.Errorf("shared blocks are %d and common is %v, must be at least 1 and above 0, up to 1", p.MinShared, p.Common)
	}
	return nil
}

// unit is a session with its random key.
type unit struct {
	number int
	key    uint64 // random; compared with Fraction
	chosen bool
}

// Run writes the sample of a trace. If only Fraction is set, Run reads the trace once. Otherwise Run keeps the names
// of sessions in memory and reads the trace twice, or four times with KeepPrefixes.
func (p Sample) Run(from Source, to Sink) (*Kept, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.Sessions == 0 && p.Head == 0 && !p.KeepPrefixes && !p.Rescale && p.From == 0 && p.To == 0 {
		return p.writeKept(from, to, nil)
	}
	units, err := p.listUnits(from)
	if err != nil {
		return nil, err
	}
	if p.KeepPrefixes {
		if err := p.connectSessions(from, units); err != nil {
			return nil, err
		}
	}
	p.chooseUnits(units)
	return p.writeKept(from, to, units)
}

// listUnits returns all sessions by name. A session is chosen if its first arrival is between From and To.
func (p *Sample) listUnits(from Source) (map[string]*unit, error) {
	units := make(map[string]*unit)
	var name []byte
	err := eachRecord(from, func(_ *formats.Stream, r *formats.Record) error {
		name = unitName(r, name)
		if units[string(name)] != nil {
			return nil
		}
		u := &unit{number: len(units), key: hashName(p.Seed, name), chosen: true}
		if p.From != 0 || p.To != 0 {
			u.chosen = r.HasAt && r.At >= p.From && (p.To == 0 || r.At < p.To)
		}
		units[string(name)] = u
		return nil
	})
	return units, err
}

// unitName returns the name of the session of r. If r has no session, the name is its line number.
func unitName(r *formats.Record, dst []byte) []byte {
	if r.Group != nil {
		return append(append(dst[:0], 'g'), r.Group...)
	}
	return strconv.AppendInt(append(dst[:0], 'l'), int64(r.Line), 10)
}

// hashName returns a hash of a name, uniform in 64 bits.
func hashName(seed uint64, name []byte) uint64 {
	h := uint64(14695981039346656037) ^ seed*0x9e3779b97f4a7c15
	for _, c := range name {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

// chooseUnits applies Head, Fraction and Sessions, in this order.
func (p *Sample) chooseUnits(units map[string]*unit) {
	var all []*unit
	for _, u := range units {
		if u.chosen {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b *unit) int { return cmp.Compare(a.number, b.number) })
	if p.Head > 0 {
		dropUnits(all[min(p.Head, len(all)):])
		all = all[:min(p.Head, len(all))]
	}
	if p.Fraction > 0 && p.Fraction < 1 {
		for _, u := range all {
			u.chosen = p.chance(u.key)
		}
		all = slices.DeleteFunc(all, func(u *unit) bool { return !u.chosen })
	}
	if p.Sessions > 0 && p.Sessions < len(all) {
		slices.SortFunc(all, func(a, b *unit) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.number, b.number))
		})
		dropUnits(all[p.Sessions:])
	}
}

// chance reports whether Fraction keeps a session with this key.
func (p *Sample) chance(key uint64) bool {
	return p.Fraction == 0 || p.Fraction == 1 || key < uint64(math.Ldexp(p.Fraction, 64))
}

// chosen reports whether a request is kept. If only Fraction is set, units is nil.
func (p *Sample) chosen(name []byte, units map[string]*unit) bool {
	if units == nil {
		return p.chance(hashName(p.Seed, name))
	}
	return units[string(name)].chosen
}

func dropUnits(units []*unit) {
	for _, u := range units {
		u.chosen = false
	}
}

func (p *Sample) writeKept(from Source, to Sink, units map[string]*unit) (*Kept, error) {
	factor := 1.0
	if p.Rescale && len(units) > 0 {
		chosen := 0
		for _, u := range units {
			if u.chosen {
				chosen++
			}
		}
		factor = float64(chosen) / float64(len(units))
	}
	s, err := from.Open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	whole, part := inspect.New(s), inspect.New(s)
	delays := newDelays(p.Rescale)
	var name []byte
	err = formats.Each(s, func(r *formats.Record) error {
		whole.Add(r)
		if name = unitName(r, name); !p.chosen(name, units) {
			return nil
		}
		part.Add(r)
		delays.fix(r)
		at := r.At * factor
		r.Quicken(1/factor, 1)
		r.At = at
		return to.Write(r)
	})
	if err != nil {
		return nil, err
	}
	whole.Finish()
	part.Finish()
	return &Kept{
		Sessions: part.Sessions, OfSessions: whole.Sessions, Requests: part.Requests, OfRequests: whole.Requests,
		Reuse: part.Reuse(), OfReuse: whole.Reuse(), ReuseKnown: !s.Private, Approximate: whole.Reused.Approximate,
	}, nil
}
