package timing

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/sim"
)

// Run is a run of successive passes in which the same requests gain one token each. The passes differ only in the KV
// cache that they read.
type Run struct {
	Apart bool     // passes are timed by Clock.Apart instead of Clock.Step
	Until sim.Time // only passes that begin before this instant are in the run, except the first
	Most  int      // maximum number of passes
	End   sim.Time // end of the last pass; before the run, the start of the first pass

	Ends  []sim.Time // ends of the passes
	Nanos []int64    // durations of the passes, in ns; empty if a duration is too long for ns
}

// mostNanos limits durations that are counted in ns: some 18 minutes.
const mostNanos = 1 << 40

// InNanos converts a duration of a Clock from ms to ns, and reports whether it is short enough for ns.
func InNanos(ms float64) (int64, bool) {
	if !(ms < mostNanos/1e6) {
		return 0, false
	}
	return int64(ms*1e6 + 0.5), true
}

// Repeat fills r with a run of passes that starts with s, and advances s past the run. A pass with a duration of 0,
// or with a duration too long for ns, is a run of one pass.
func (c *Clock) Repeat(s *Step, r *Run) error {
	p, fitted := c.Model.(*Parameters)
	m, measured := c.Model.(*Measured)
	factor := float64(c.Speedup * c.DecodeSpeedup)
	short := !r.Apart && !s.Mixed()
	shares, byShare := sharesOf(c.Model)
	byShare = byShare && !s.Mixed() && s.Decodes > 0 && s.Prompts == 0 && s.Drafts == 0
	for again := true; again; {
		switch {
		case fitted && short:
			line := silicon.Line{Base: c.timeApart(p, s) + p.launchTime(s), PerToken: p.Context, Most: math.MaxInt64}
			repeatDecodes(&line, scale{nanosPerSecond, factor}, s, r)
		case measured && short:
			line := m.decodeLine(s)
			repeatDecodes(&line, scale{nanosPerMs, factor}, s, r)
		case byShare:
			shares.repeatShares(factor, s, r)
		}
		if len(r.Ends) == r.Most || len(r.Ends) > 0 && r.End >= r.Until {
			return nil
		}
		var err error
		if again, err = c.addPass(s, r); err != nil && len(r.Ends) == 0 {
			return err
		}
	}
	return nil // the next call returns the error
}

// addPass adds a pass to r if r is empty or the pass can join the run, and reports whether more passes may follow.
func (c *Clock) addPass(s *Step, r *Run) (more bool, err error) {
	ms, err := c.timePass(s, r.Apart)
	if err != nil {
		return false, err
	}
	end := r.End + sim.Time(ms)
	nanos, ok := InNanos(ms)
	more = ok && end > r.End
	if !more && len(r.Ends) > 0 {
		return false, nil
	}
	r.Ends = append(r.Ends, end)
	if r.End = end; ok {
		r.Nanos = append(r.Nanos, nanos)
	}
	s.Grow(1)
	return more, nil
}

func (c *Clock) timePass(s *Step, apart bool) (float64, error) {
	if !apart {
		return c.Step(s)
	}
	prefill, decode, err := c.Apart(s)
	return prefill + decode, err
}

// scale converts times of a line: they are multiplied by unit to be in ns, and then divided by factor.
type scale struct{ unit, factor float64 }

// repeatDecodes implements Repeat for passes that only decode, with times on a line. repeatDecodes stops at the end
// of the line, or before the first pass that needs the slow path of scaleTime.
func repeatDecodes(line *silicon.Line, by scale, s *Step, r *Run) {
	from := len(r.Ends)
	ends, nanos := slices.Grow(r.Ends, r.Most-from)[:r.Most], slices.Grow(r.Nanos, r.Most-from)[:r.Most]
	n, until, end := from, r.Until, r.End
	context, step, fixed, each, most := s.Context, int64(s.Requests), line.Base, line.PerToken, line.Most
	divides := !leavesTimes(by.factor)
	for n < len(ends) && n < len(nanos) && (n == 0 || end < until) && context < most {
		// The product equals the value that scaleTime would round, except for its last digits.
		length, ok := roundNanos(float64((fixed + float64(each*float64(context))) * by.unit))
		if ok && divides {
			length, ok = divideNanos(length, by.factor)
		}
		next := end + sim.Time(nanosToMS(length))
		if !ok || next == end {
			break
		}
		ends[n], nanos[n] = next, length
		end = next
		n++
		context += step
	}
	s.Grow(n - from)
	r.End, r.Ends, r.Nanos = end, ends[:n], nanos[:n]
}

// Grow changes s, a pass that only decodes, to the pass n passes later, or earlier if n is negative.
func (s *Step) Grow(n int) {
	s.Context += int64(n) * int64(s.Requests)
	s.DecodeLength += n * s.Decodes
	if s.ByTokens {
		s.Active = min(s.DecodeLength, s.Capacity)
	}
}
