package online

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// A sleep is never too short, and a wake ends it or the next one, whatever the
// timer is made of.
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
			for range 200 { // at any moment of falling asleep
				go timer.Wake()
				within(t, func() { timer.Sleep(farOff) })
			}
			timer.Close()
			timer.Wake()
		}
	}
}

// A sampler keeps evenly spaced values, and a quantile is one of them.
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

// Spans between planned ends become spans between real ones.
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

// A barrier falls with the last call of Done, and a worker waits no longer than
// its patience.
func TestBarrier(t *testing.T) {
	b := NewBarrier(1)
	b.Add(2)
	for range 3 {
		go b.Done()
	}
	select {
	case <-b.done:
	case <-time.After(hang):
		t.Error("the barrier stands after the last Done")
	}
	if !b.wait() {
		t.Error("a wait at a fallen barrier fails")
	}
	if NewBarrier(1).wait() {
		t.Error("a wait at a standing barrier succeeds")
	}
	var none *Barrier
	none.Done()
}
