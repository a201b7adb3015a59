// Package schedulertest tests what every scheduler core must do.
//
// A new core should pass Run first. Read suite.go, then replay.go.
package schedulertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Arrival is a request and the instant at which it reaches the core.
type Arrival struct {
	At      sim.Time
	Request *sim.Request
}

// Stride controls how many passes a core may run per Step.
type Stride int

const (
	OneByOne     Stride = iota // one pass per Step
	UntilArrival               // all passes that start before the next request arrives
	Overshoot                  // any number of passes, cut at an arrival or at random
)

// Step is one pass of a core; a run of passes is a sequence of steps. The Pass of a step has no fields that depend on
// the length of the run.
type Step struct {
	scheduler.Pass
	Latencies []sim.Time // inter-token latencies, ascending
}

// maxPasses limits the passes of a replay, to stop an endless one.
const maxPasses = 1_000_000

// Replay submits requests to core at their arrivals, in order, and runs passes until no request is left. visit is
// called for every pass, and its error ends the replay.
func Replay(core scheduler.Core, arrivals []Arrival, s Stride, visit func(Step) error) error {
	return newReplayer(core, arrivals, s).run(func() error { return nil }, visit)
}

// replayer is a core with the requests that have not been submitted yet.
type replayer struct {
	core     scheduler.Core
	arrivals []Arrival
	stride   Stride
	coin     *rand.Rand
	now      sim.Time
	next     int // index of the next arrival to submit
	pass     scheduler.Pass
}

func newReplayer(core scheduler.Core, arrivals []Arrival, s Stride) *replayer {
	return &replayer{core: core, arrivals: arrivals, stride: s, coin: rand.New(rand.NewPCG(uint64(len(arrivals)), 7))}
}

// run runs passes until no request is left. run calls between before each pass and visit after each.
func (r *replayer) run(between func() error, visit func(Step) error) error {
	for passes := 0; passes <= maxPasses; passes += r.pass.Count {
		r.submitArrived()
		if err := between(); err != nil {
			return err
		}
		if r.core.Load() == 0 {
			if r.next == len(r.arrivals) {
				return nil
			}
			r.now, r.pass.Count = r.arrivals[r.next].At, 0
			continue
		}
		if err := r.stepCore(); err != nil {
			return fmt.Errorf("at %v ms: %w", r.now, err)
		}
		for i := range r.pass.Count {
			if err := visit(Single(&r.pass, i)); err != nil {
				return err
			}
		}
		r.now = r.pass.End
	}
	return fmt.Errorf("at %v ms: more than %d passes", r.now, maxPasses)
}

func (r *replayer) submitArrived() {
	for r.next < len(r.arrivals) && r.arrivals[r.next].At <= r.now {
		r.core.Submit(r.arrivals[r.next].Request)
		r.next++
	}
}

// stepCore runs a pass or a run of passes and checks its values.
func (r *replayer) stepCore() error {
	arrival := sim.Time(math.Inf(1))
	if r.next < len(r.arrivals) {
		arrival = r.arrivals[r.next].At
	}
	until := arrival
	switch r.stride {
	case OneByOne:
		until = r.now
	case Overshoot:
		until = sim.Time(math.Inf(1))
		if r.coin.IntN(4) == 0 {
			until = r.now + sim.Time(r.coin.IntN(200))
		}
	}
	p := &r.pass
	if err := r.core.Step(r.now, until, p); err != nil {
		return err
	}
	p.EndWait(arrival)
	if r.stride != OneByOne {
		if keep := r.keptPasses(arrival); keep < p.Count {
			r.core.Cut(p, keep)
			if p.Count != keep {
				return fmt.Errorf("cut to %d passes, run has %d", keep, p.Count)
			}
		}
	}
	return r.checkPass(until)
}

// keptPasses returns how many passes of the run are kept.
func (r *replayer) keptPasses(arrival sim.Time) int {
	p := &r.pass
	keep := p.Count
	if r.stride == Overshoot {
		for keep > 1 && p.Begins(keep-1) >= arrival {
			keep--
		}
		if keep > 1 && r.coin.IntN(3) == 0 {
			keep = 1 + r.coin.IntN(keep)
		}
	}
	return keep
}

// checkPass checks conditions that every pass must meet.
func (r *replayer) checkPass(until sim.Time) error {
	p := &r.pass
	last := p.Begins(p.Count - 1)
	switch {
	case p.Start != r.now:
		return fmt.Errorf("pass starts at %v", p.Start)
	case p.Count < 1:
		return fmt.Errorf("run of %d passes", p.Count)
	case p.Count > 1 && last >= until:
		return fmt.Errorf("the last of %d passes starts at %v, expected before %v", p.Count, last, until)
	case p.Count > 1 && p.End != p.Begins(p.Count):
		return fmt.Errorf("%d passes of %v ms from %v end at %v", p.Count, p.Gap, p.Start, p.End)
	case len(p.Ends) > 0 && (len(p.Ends) != p.Count || p.Count == 1 || p.Gap != 0):
		return fmt.Errorf("%d passes of %v ms end at %v", p.Count, p.Gap, p.Ends)
	case len(p.Nanos) > 0 && len(p.Nanos) != p.Count:
		return fmt.Errorf("%d passes take %v ns", p.Count, p.Nanos)
	case p.Gap != p.End-p.Start && p.Count == 1:
		return fmt.Errorf("pass from %v to %v has a gap of %v", p.Start, p.End, p.Gap)
	case p.Gap < 0:
		return fmt.Errorf("gap of %v ms", p.Gap)
	case p.Count > 1 && len(p.Gaps)+len(p.Admitted)+len(p.Marks)+len(p.Aborted)+p.Preempted+p.PrefillTokens > 0:
		return fmt.Errorf("run of %d passes has effects: %+v", p.Count, *p)
	}
	return checkLengths(p)
}

// checkLengths compares the durations in a run with its instants.
func checkLengths(p *scheduler.Pass) error {
	for i := range p.Ends {
		if gap := p.GapOf(i); gap <= 0 {
			return fmt.Errorf("pass %d of a run takes %v ms", i, gap)
		}
	}
	for i, n := range p.Nanos {
		if gap := float64(p.GapOf(i)); math.Abs(gap-float64(n)/1e6) > 1e-9+1e-15*float64(p.End) {
			return fmt.Errorf("pass %d takes %v ms, or %d ns", i, gap, n)
		}
	}
	return nil
}

// Single returns pass i of a run.
func Single(p *scheduler.Pass, i int) Step {
	s := Step{Pass: *p}
	s.Count, s.Gap, s.Decoding, s.Gaps, s.Second, s.Detail = 0, 0, 0, nil, nil, nil
	s.Ends, s.Nanos = nil, nil
	s.Aborted = cloneOrNil(p.Aborted)
	s.Admitted, s.Marks, s.KV, s.Events = cloneOrNil(p.Admitted), cloneOrNil(p.Marks), cloneOrNil(p.KV), cloneOrNil(p.Events)
	s.Start = p.Begins(i)
	if i+1 < p.Count {
		s.End = p.Begins(i + 1)
	}
	if i == 0 {
		s.Second = cloneOrNil(p.Second) // second tokens are in unspecified order
		slices.Sort(s.Second)
	} else {
		s.KV, s.Events = nil, nil // changes of the first pass
	}
	for range p.Decoding {
		s.Latencies = append(s.Latencies, p.GapOf(i))
	}
	s.Latencies = append(s.Latencies, p.Gaps...)
	slices.Sort(s.Latencies)
	return s
}

// cloneOrNil returns a copy of values, or nil if values is empty.
func cloneOrNil[T any](values []T) []T { return append([]T(nil), values...) }
