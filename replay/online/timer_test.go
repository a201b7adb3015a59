package online

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// TestTimer checks that a sleep is never too short, and that a wake ends it or the next sleep, for every kind of
// alarm.
func TestTimer(t *testing.T) {
	for name, make := range map[string]func() alarm{"of the system": newAlarm, "of Go": newSleeper} {
		for _, precise := range []bool{false, true} {
			c := NewClock()
			timer := &Timer{clock: c, spin: precise, alarm: make()}
			for range 20 {
				at := c.Now() + 0.7
				if timer.Sleep(at) || c.Now() < at {
					t.Errorf("%s: a sleep ends at %v, want %v", name, c.Now(), at)
				}
			}
			if timer.Sleep(c.Now() - 5) {
				t.Errorf("%s: woken in the past", name)
			}
			timer.Wake()
			within(t, func() {
				if !timer.Sleep(farOff) {
					t.Errorf("%s: not woken by what came before", name)
				}
			})
			for range 200 { // at any moment
				go timer.Wake()
				within(t, func() { timer.Sleep(farOff) })
			}
			timer.Close()
			timer.Wake()
		}
	}
}

// TestSampler checks that a sampler keeps evenly spaced values, and that a quantile is one of them.
func TestSampler(t *testing.T) {
	var s sampler
	const n = 5 * maxSamples
	for i := range n {
		s.add(float64(i))
	}
	if len(s.values) >= maxSamples || s.seen != n {
		t.Errorf("%d values of %d kept", len(s.values), s.seen)
	}
	for i, v := range s.values {
		if v != float64(i*s.stride) {
			t.Fatalf("value %d is %v, want %d", i, v, i*s.stride)
		}
	}
	if q := nearestRank([]*sampler{&s}, 0.5); q < 0.45*n || q > 0.55*n {
		t.Errorf("the median is %v, want about %v", q, n/2)
	}
	if q := nearestRank(nil, 0.5); q != 0 {
		t.Errorf("the median of nothing is %v", q)
	}
}

// TestRealize checks that spans between planned ends become spans between real ends.
func TestRealize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var e ends
	var planned, really []sim.Time
	var p, real scheduler.Pass
	at, now := sim.Time(0), sim.Time(0)
	for i := range 3 * keptEnds {
		begun := now
		p.Reset(at)
		at += sim.Time(rng.IntN(40_000_000)) / 1e6
		p.End = at
		now = max(now, at) + sim.Time(rng.Float64())
		back := 1 + rng.IntN(min(i+1, keptEnds/2))
		if i > 0 {
			p.Gaps = append(p.Gaps, p.End-planned[max(0, i-back)])
		}
		e.realizePass(&p, &real, begun, now)
		if real.Start != begun || real.End != now || i > 0 && real.Gap != now-really[i-1] {
			t.Fatalf("pass %d is %+v", i, real)
		}
		if i > 0 && real.Gaps[0] != now-really[max(0, i-back)] {
			t.Fatalf("pass %d: a gap over %d passes is %v, want %v", i, back, real.Gaps[0], now-really[max(0, i-back)])
		}
		planned, really = append(planned, at), append(really, now)
	}
	if len(e.real) > 2*keptEnds || !slices.IsSorted(e.planned) {
		t.Errorf("%d ends kept", len(e.real))
	}
}

// TestInstants checks that a party waits for all parties that may act before it at an instant, up to patience.
func TestInstants(t *testing.T) {
	s := new(instants)
	one, two := s.addWorker(), s.addWorker()
	begins := func(worker int, at sim.Time) func() { return func() { s.awaitStart(worker, at) } }
	arrives := func(at sim.Time) func() { return func() { s.awaitArrivals(at) } }
	carries := func(at sim.Time) func() { return func() { s.awaitCarry(at, func() bool { return false }) } }
	for _, step := range []struct {
		what string
		do   func()
		act  func()
		may  bool
	}{
		{"the first requests come at 0", func() {}, begins(one, 0), false},
		{"nobody is before them", func() {}, arrives(0), true},
		{"they are there, and the next come at 100", func() { s.planArrivals(100) }, begins(two, 0), true},
		{"its pass ends at 10", func() { s.begin(one, 10) }, arrives(10), false},
		{"the other may begin at 0 one that ends before", func() { s.handOut(one) }, carries(10), false},
		{"it ends at 10, too", func() { s.begin(two, 10) }, carries(10), false},
		{"both have ended", func() { s.handOut(two) }, carries(10), true},
		{"one is carried", func() { s.carry(one, 10) }, begins(one, 10), false},
		{"both are", func() { s.carry(two, 10) }, begins(one, 10), true},
		{"and both may begin another", func() {}, begins(two, 10), true},
		{"nobody else may begin one later", func() { s.begin(one, 20) }, arrives(15), false},
		{"unless it has nothing to do", func() { s.rest(two) }, arrives(15), true},
		{"a request ends early", func() { s.expectDriver(20); s.handOut(one); s.carry(one, 20) }, begins(one, 20), false},
		{"what follows has been done", func() { s.planArrivals(farOff) }, begins(one, 20), true},
		{"an idle worker was given a request", func() { s.expectStart(two, 25); s.begin(one, 30) }, arrives(26), false},
	} {
		step.do()
		before := s.late
		step.act()
		if may := s.late == before; may != step.may {
			t.Errorf("%s: may act is %v", step.what, may)
		}
	}
	s.rest(two)
	s.planArrivals(26)
	if !s.awaitArrivals(26) {
		t.Error("requests that come at 26 may not")
	}
	late := s.late
	s.expectStart(two, 22)
	s.expectDriver(22)
	if s.awaitArrivals(26) || s.late != late {
		t.Error("requests may come at 26, or are waited for, while the driver has something to do at 22, for which a worker waits")
	}
}
