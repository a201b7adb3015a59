package links

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
	"github.com/replay-llm/replay/sim"
)

// fluid is a naive model of links with separate transfers. fluid raises the speeds of transfers in small steps.
type fluid struct {
	nic, core float64
	all       []*fluidTransfer
}

type fluidTransfer struct {
	from, to sim.WorkerID
	left     float64 // ms at full speed
	speed    float64
}

// share raises all speeds together. share stops raising the speed of a transfer when one of its links is full.
func (f *fluid) share() {
	held := map[*fluidTransfer]bool{}
	for _, t := range f.all {
		t.speed = 0
	}
	for len(held) < len(f.all) {
		step := math.Inf(1)
		type side struct {
			to bool
			w  sim.WorkerID
		}
		used, rising := map[side]float64{}, map[side]float64{}
		for _, t := range f.all {
			for _, s := range []side{{false, t.from}, {true, t.to}, {false, -1}} {
				used[s] += t.speed
				if !held[t] {
					rising[s]++
				}
			}
		}
		room := func(s side) float64 {
			if s.w < 0 {
				return f.core - used[s]
			}
			return f.nic - used[s]
		}
		for s, n := range rising {
			step = min(step, room(s)/n)
		}
		for _, t := range f.all {
			if !held[t] {
				step = min(step, 1-t.speed)
			}
		}
		for _, t := range f.all {
			if held[t] {
				continue
			}
			t.speed += step
			for _, s := range []side{{false, t.from}, {true, t.to}, {false, -1}} {
				if room(s)-step*rising[s] < 1e-9 || t.speed > 1-1e-9 {
					held[t] = true
				}
			}
		}
	}
}

// TestFairLinks compares the ends of transfers with those of a naive model. TestFairLinks also checks that links
// never carry more than their bandwidth.
func TestFairLinks(t *testing.T) {
	for seed := range uint64(300) {
		d := rand.New(rand.NewPCG(seed, 7))
		capacity := func() float64 { return []float64{1, 1, 1.5, 2, 4, math.Inf(1)}[d.IntN(6)] }
		n := New(false, capacity(), capacity())
		twin := &fluid{nic: n.nic, core: n.core}
		of := map[*Transfer]*fluidTransfer{}
		now, sent := sim.Time(0), 0
		for sent < 60 || len(of) > 0 {
			var next *Transfer
			at := sim.Time(math.Inf(1))
			for _, l := range n.lanes {
				if x, ends := l.Next(now); ends < at {
					next, at = x, ends
				}
			}
			arrives := now + sim.Time(d.IntN(4))
			then := min(at, arrives)
			if sent == 60 {
				then = at
			}
			for _, x := range twin.all {
				x.left -= x.speed * float64(then-now)
			}
			now = then
			if now == at {
				n.End(next, now)
				x := of[next]
				if math.Abs(x.left) > 1e-6 {
					t.Fatalf("seed %d: a transfer ends at %v with %v ms left", seed, now, x.left)
				}
				delete(of, next)
				kept := twin.all[:0]
				for _, y := range twin.all {
					if y != x {
						kept = append(kept, y)
					}
				}
				twin.all = kept
			} else {
				x := &Transfer{ID: sim.RequestID(sent), From: sim.WorkerID(d.IntN(3)), To: sim.WorkerID(d.IntN(3)), Alone: sim.Time(1 + d.IntN(5))}
				y := &fluidTransfer{from: x.From, to: x.To, left: float64(x.Alone)}
				of[x], twin.all = y, append(twin.all, y)
				n.Ask(x, now)
				sent++
			}
			n.UpdateSpeeds(now)
			twin.share()
			for x, y := range of {
				if math.Abs(x.lane.speed-y.speed) > 1e-9 {
					t.Fatalf("seed %d: %d to %d at %v, want %v, of %v and %v", seed, x.From, x.To, x.lane.speed, y.speed, n.nic, n.core)
				}
			}
		}
		if len(n.lanes) > 0 {
			t.Fatalf("seed %d: %d lanes left", seed, len(n.lanes))
		}
	}
}

// TestLinksInTurns checks that no transfer is slowed in turns and that the core carries no more transfers than it
// can. Transfers between the same two workers begin in order.
func TestLinksInTurns(t *testing.T) {
	for seed := range uint64(300) {
		d := rand.New(rand.NewPCG(seed, 9))
		n := New(true, float64(1+d.IntN(2)), float64(1+d.IntN(4)))
		var asked []*Transfer
		now := sim.Time(0)
		for len(asked) < 60 || len(n.lanes)+len(n.waiting) > 0 {
			var next *Transfer
			at := sim.Time(math.Inf(1))
			for _, l := range n.lanes {
				if x, ends := l.Next(now); ends < at {
					next, at = x, ends
				}
			}
			if arrives := now + sim.Time(d.IntN(3)); len(asked) < 60 && arrives < at {
				now = arrives
				x := &Transfer{ID: sim.RequestID(len(asked)), From: sim.WorkerID(d.IntN(3)), To: sim.WorkerID(d.IntN(3)), Alone: sim.Time(1 + d.IntN(5))}
				asked = append(asked, x)
				n.Ask(x, now)
			} else {
				now = at
				if now != next.began+next.Alone {
					t.Fatalf("seed %d: from %v for %v, and ends at %v", seed, next.began, next.Alone, now)
				}
				n.End(next, now)
			}
			n.UpdateSpeeds(now)
			if len(n.lanes) > int(n.core) {
				t.Fatalf("seed %d: %d at once, want at most %v", seed, len(n.lanes), n.core)
			}
		}
		for i, a := range asked {
			for _, b := range asked[i+1:] {
				if a.From == b.From && a.To == b.To && b.began < a.began {
					t.Fatalf("seed %d: %d begins at %v, %d behind it at %v", seed, a.ID, a.began, b.ID, b.began)
				}
			}
		}
	}
}

// newBusy returns a network with 1,000 transfers between 16 workers.
func newBusy() *Network {
	n := New(false, 1, 4)
	d := rand.New(rand.NewPCG(1, 1))
	all := make([]Transfer, 1000)
	for i := range all {
		all[i] = Transfer{ID: sim.RequestID(i), From: sim.WorkerID(d.IntN(8)), To: sim.WorkerID(d.IntN(8)), Alone: sim.Time(1 + d.IntN(50))}
		n.Ask(&all[i], 0)
	}
	n.UpdateSpeeds(0)
	return n
}

// TestLinksAllocateNothing checks that an event costs no allocation with 1,000 transfers in progress between 16
// workers.
func TestLinksAllocateNothing(t *testing.T) {
	if invariant.Enabled {
		t.Skip("checks allocate")
	}
	n := newBusy()
	now := sim.Time(0)
	if allocs := testing.AllocsPerRun(500, func() {
		x, at := n.lanes[0].Next(now)
		now = at
		n.End(x, now)
		n.Ask(x, now)
		n.UpdateSpeeds(now)
	}); allocs > 0 {
		t.Errorf("%v allocations an event, want none", allocs)
	}
}

func BenchmarkLinks(b *testing.B) {
	n := newBusy()
	now := sim.Time(0)
	for b.Loop() {
		x, at := n.lanes[0].Next(now)
		now = at
		n.End(x, now)
		n.Ask(x, now)
		n.UpdateSpeeds(now)
	}
}
