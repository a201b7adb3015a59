// Package schedulertest is what every scheduler core owes, as tests.
//
// A new core starts by passing Run. Read suite.go, then replay.go.
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

// Stride is how many passes a core is asked for at once.
type Stride int

const (
	OneByOne     Stride = iota // every pass alone
	UntilArrival               // as many as start before the next request comes
	Overshoot                  // any number, cut back where a request comes or a coin says so
)

// Step is one pass of a core; a run of passes is so many of them.
type Step struct {
	Start, End    sim.Time
	Tokens        int
	Latencies     []sim.Time // between tokens, ascending
	Admitted      []scheduler.Admission
	Second        []sim.RequestID
	Marks         []scheduler.Mark
	KV            []scheduler.KVChange
	Events        []scheduler.KVEvent
	KVAtEnd       bool
	Preempted     int
	PrefillTokens int
}

// maxPasses ends a replay that would not end.
const maxPasses = 1_000_000

// Replay gives a core its requests as they arrive, in order, and passes until
// none is left. visit sees every pass; an error of its ends the replay.
func Replay(core scheduler.Core, arrivals []Arrival, s Stride, visit func(Step) error) error {
	r := replayer{core: core, arrivals: arrivals, stride: s, coin: rand.New(rand.NewPCG(uint64(len(arrivals)), 7))}
	passes := 0
	for {
		r.submitArrived()
		if core.Load() == 0 {
			if r.next == len(arrivals) {
				return nil
			}
			r.now = arrivals[r.next].At
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
		if passes += r.pass.Count; passes > maxPasses {
			return fmt.Errorf("at %v ms: more than %d passes", r.now, maxPasses)
		}
		r.now = r.pass.End
	}
}

// replayer is one core and the requests that are still to reach it.
type replayer struct {
	core     scheduler.Core
	arrivals []Arrival
	stride   Stride
	coin     *rand.Rand
	now      sim.Time
	next     int // index of the first arrival not delivered
	pass     scheduler.Pass
}

func (r *replayer) submitArrived() {
	for r.next < len(r.arrivals) && r.arrivals[r.next].At <= r.now {
		r.core.Submit(r.arrivals[r.next].Request)
		r.next++
	}
}

// stepCore takes a pass or a run of them, and checks that it is one.
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

// keptPasses returns how many passes of the run stay.
func (r *replayer) keptPasses(arrival sim.Time) int {
	p := &r.pass
	keep := p.Count
	if r.stride == Overshoot {
		for keep > 1 && p.Start+sim.Time(float64(keep-1)*float64(p.Gap)) >= arrival {
			keep--
		}
		if keep > 1 && r.coin.IntN(3) == 0 {
			keep = 1 + r.coin.IntN(keep)
		}
	}
	return keep
}

// checkPass holds a pass to what is true of every pass.
func (r *replayer) checkPass(until sim.Time) error {
	p := &r.pass
	last := p.Start + sim.Time(float64(p.Count-1)*float64(p.Gap))
	switch {
	case p.Start != r.now:
		return fmt.Errorf("pass starts at %v", p.Start)
	case p.Count < 1:
		return fmt.Errorf("run of %d passes", p.Count)
	case p.Count > 1 && last >= until:
		return fmt.Errorf("the last of %d passes starts at %v, want before %v", p.Count, last, until)
	case p.Count > 1 && p.End != p.Start+sim.Time(float64(p.Count)*float64(p.Gap)):
		return fmt.Errorf("%d passes of %v ms from %v end at %v", p.Count, p.Gap, p.Start, p.End)
	case p.Gap != p.End-p.Start && p.Count == 1:
		return fmt.Errorf("pass from %v to %v has a gap of %v", p.Start, p.End, p.Gap)
	case p.Gap < 0:
		return fmt.Errorf("gap of %v ms", p.Gap)
	case p.Count > 1 && len(p.Gaps)+len(p.Admitted)+len(p.Marks)+len(p.KV)+len(p.Events)+p.Preempted+p.PrefillTokens > 0:
		return fmt.Errorf("run of %d passes has effects: %+v", p.Count, *p)
	}
	return nil
}

// Single returns pass i of a run.
func Single(p *scheduler.Pass, i int) Step {
	s := Step{
		Start:    p.Start + sim.Time(float64(i)*float64(p.Gap)),
		End:      p.End,
		Tokens:   p.Tokens,
		Admitted: cloneOrNil(p.Admitted), Marks: cloneOrNil(p.Marks),
		KV: cloneOrNil(p.KV), Events: cloneOrNil(p.Events), KVAtEnd: p.KVAtEnd,
		Preempted: p.Preempted, PrefillTokens: p.PrefillTokens,
	}
	if i+1 < p.Count {
		s.End = p.Start + sim.Time(float64(i+1)*float64(p.Gap))
	}
	if i == 0 {
		s.Second = cloneOrNil(p.Second) // in no order
		slices.Sort(s.Second)
	}
	for range p.Decoding {
		s.Latencies = append(s.Latencies, p.Gap)
	}
	s.Latencies = append(s.Latencies, p.Gaps...)
	slices.Sort(s.Latencies)
	return s
}

// cloneOrNil returns a copy of values, nil when there are none.
func cloneOrNil[T any](values []T) []T { return append([]T(nil), values...) }
