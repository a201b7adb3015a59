package loadgen_test

import (
	. "github.com/replay-llm/replay/loadgen"

	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// The feed returns the same requests as a simple driver that sorts a list of ready turns at each step.
func TestDriverAgreesWithList(t *testing.T) {
	for seed := range uint64(40) {
		random := sim.NewRand(seed, "driver")
		w := randomWorkload(t, seed)
		a := Admission{Speedup: 2}
		if seed%2 == 1 {
			a = Admission{Mode: Concurrency, MaxInFlight: 1 + random.IntN(5)}
		}
		f := NewSessionFeed(w, noPrompts(len(w.Turns)), a)
		twin := newListDriver(w, a)
		var inFlight []sim.RequestID
		now := sim.Time(0)
		for steps := 0; !f.Done(); steps++ {
			if steps > 10*len(w.Turns)+100 {
				t.Fatalf("seed %d: no end", seed)
			}
			got := f.Take(now, len(inFlight), nil)
			want := twin.take(now, len(inFlight))
			for i, arrival := range got {
				inFlight = append(inFlight, arrival.Request.ID)
				if i >= len(want) || int(arrival.Request.Line) != want[i].line || arrival.At != want[i].at {
					t.Fatalf("seed %d at %v: got line %d at %v, want %+v", seed, now, arrival.Request.Line, arrival.At, want)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d at %v: %d arrivals, want %d", seed, now, len(got), len(want))
			}
			if at, ok := f.Next(now, len(inFlight)); ok && (len(inFlight) == 0 || random.IntN(2) == 0) {
				now = at
				continue
			}
			if len(inFlight) > 0 {
				now += sim.Time(random.IntN(3))
				i := random.IntN(len(inFlight))
				id := inFlight[i]
				inFlight = slices.Delete(inFlight, i, i+1)
				if err := f.Finish(id, now); err != nil {
					t.Fatal(err)
				}
				twin.finish(int(id), now)
			}
		}
		if twin.taken() != len(w.Turns) {
			t.Fatalf("seed %d: %d turns taken, want %d", seed, twin.taken(), len(w.Turns))
		}
	}
}

// randomWorkload returns sessions of one to four turns. Many sessions are ready at the same time.
func randomWorkload(t *testing.T, seed uint64) *Workload {
	random := sim.NewRand(seed, "workload")
	var b strings.Builder
	sessions := 1 + random.IntN(20)
	for line := range sessions * 3 {
		s := line
		if line >= sessions {
			s = random.IntN(sessions)
		}
		fmt.Fprintf(&b, `{"session_id":"s%d","output_length":1,"hash_ids":[%d]`, s, line)
		if line < sessions {
			fmt.Fprintf(&b, `,"timestamp":%d}`+"\n", 10+random.IntN(8))
		} else {
			fmt.Fprintf(&b, `,"delay":%d}`+"\n", random.IntN(4))
		}
	}
	return mustRead(t, b.String())
}

// listDriver is a simple implementation of the rules for sessions.
type listDriver struct {
	w     *Workload
	a     Admission
	ready []listed
	order []listed // by request
}

type listed struct {
	at            sim.Time
	session, turn int
	line          int
	index         int32
}

func newListDriver(w *Workload, a Admission) *listDriver {
	d := &listDriver{w: w, a: a}
	first := sim.Time(math.Inf(1))
	for _, s := range w.Sessions {
		first = min(first, s.Arrival)
	}
	for i, s := range w.Sessions {
		r := listed{session: i, index: s.First, line: int(w.Turns[s.First].Line)}
		if a.Mode == Trace {
			r.at = (s.Arrival - first) / sim.Time(a.Speedup)
		}
		d.ready = append(d.ready, r)
	}
	return d
}

func (d *listDriver) take(now sim.Time, inFlight int) (out []listed) {
	slices.SortFunc(d.ready, func(a, b listed) int {
		switch {
		case a.at != b.at && a.at < b.at:
			return -1
		case a.at != b.at:
			return 1
		case a.session != b.session:
			return a.session - b.session
		}
		return a.turn - b.turn
	})
	for len(d.ready) > 0 && d.ready[0].at <= now && (d.a.Mode == Trace || inFlight+len(out) < d.a.MaxInFlight) {
		r := d.ready[0]
		d.ready = d.ready[1:]
		if d.a.Mode == Concurrency {
			r.at = now
		}
		out = append(out, r)
	}
	d.order = append(d.order, out...)
	return out
}

func (d *listDriver) finish(id int, now sim.Time) {
	r := d.order[id]
	next := d.w.Turns[r.index].Next
	if next < 0 {
		return
	}
	delay := d.w.Turns[next].Delay
	if d.a.Mode == Trace {
		delay /= sim.Time(d.a.Speedup)
	}
	d.ready = append(d.ready, listed{at: now + delay, session: r.session, turn: r.turn + 1, index: next, line: int(d.w.Turns[next].Line)})
}

func (d *listDriver) taken() int { return len(d.order) }
