package timing

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/sim"
)

// Run is a run of successive passes in which the same requests gain one token each: passes differ only in the KV cache
// that they read.
type Run struct {
	Apart bool     // they are timed by Clock.Apart, not by Clock.Step
	Until sim.Time // passes that would begin then or later are left out, except the first
	Most  int      // passes at most
	End   sim.Time // of the last pass; before, when the first begins

	Ends  []sim.Time // of the passes
	Nanos []int64    // how long they take, in ns; none when it is too long to count
}

// mostNanos bounds the lengths of passes that are counted in whole ns: some 18 minutes.
const mostNanos = 1 << 40

// InNanos returns a duration of a Clock in ms as whole ns, and whether it is short enough
// to be counted so.
func InNanos(ms float64) (int64, bool) {
	if !(ms < mostNanos/1e6) {
		return 0, false
	}
	return int64(ms*1e6 + 0.5), true
}

// Repeat fills r with a run of passes, the first of which is s, and advances s past the run. A pass of no length, or
// one that is too long to count, is a run alone.
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

// addPass adds a pass to r if r has none or the pass is like the ones before it, and reports whether more may follow.
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

// scale is what times on a line are multiplied by to be in ns, and then divided by.
type scale struct{ unit, factor float64 }

// repeatDecodes is Repeat for passes that only decode, with times on a line: up to the first that does not take the
// short way of scaleTime, or the end of the line.
func repeatDecodes(line *silicon.Line, by scale, s *Step, r *Run) {
	from := len(r.Ends)
	ends, nanos := slices.Grow(r.Ends, r.Most-from)[:r.Most], slices.Grow(r.Nanos, r.Most-from)[:r.Most]
	n, until, end := from, r.Until, r.End
	context, step, fixed, each, most := s.Context, int64(s.Requests), line.Base, line.PerToken, line.Most
	divides := !leavesTimes(by.factor)
	for n < len(ends) && n < len(nanos) && (n == 0 || end < until) && context < most {
		// What scaleTime would round is this product except its last digits.
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

// Grow turns a pass that only decodes into the one that comes n passes after it, or before
// it.
func (s *Step) Grow(n int) {
	s.Context += int64(n) * int64(s.Requests)
	s.DecodeLength += n * s.Decodes
	if s.ByTokens {
		s.Active = min(s.DecodeLength, s.Capacity)
	}
}
