package collector

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// filled returns a collector after a replay of the given size.
func filled(requests, weighted int) *Collector {
	rng := rand.New(rand.NewPCG(1, 1))
	c := New(requests)
	for id := range sim.RequestID(requests) {
		at := sim.Time(id) * 17.3
		c.Arrive(&sim.Request{ID: id, InputTokens: 1000, OutputTokens: 100}, at)
		c.records[id].Admit = at
		c.records[id].First = at + sim.Time(20+rng.ExpFloat64()*30)
		c.records[id].Second = c.records[id].First + sim.Time(5.7+rng.Float64())
		c.Progress(id, 100, c.records[id].Second+sim.Time(560+rng.ExpFloat64()*400))
	}
	now := sim.Time(0)
	for range weighted {
		d := sim.Time(5.7 + rng.Float64()/10)
		if rng.IntN(5) == 0 {
			d += sim.Time(rng.ExpFloat64() * 30)
		}
		c.gaps.add(now+d-now, 1+rng.Int64N(200))
		now += d
	}
	return c
}

func BenchmarkReport(b *testing.B) {
	for _, size := range []struct{ requests, gaps int }{{12_000, 30_000}, {12_000, 100_000}, {1_000_000, 1_000_000}} {
		b.Run(fmt.Sprintf("requests=%d/gaps=%d", size.requests, size.gaps), func(b *testing.B) {
			c := filled(size.requests, size.gaps)
			kept := weighted{append([]uint64(nil), c.gaps.bits...), append([]int64(nil), c.gaps.counts...)}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				c.gaps.bits = append(c.gaps.bits[:0], kept.bits...)
				c.gaps.counts = append(c.gaps.counts[:0], kept.counts...)
				b.StartTimer()
				c.Report(0)
			}
		})
	}
}

func BenchmarkPass(b *testing.B) {
	c := New(1)
	c.Arrive(&sim.Request{InputTokens: 3, OutputTokens: 1 << 30}, 0)
	p := &scheduler.Pass{Count: 10, Decoding: 3}
	rng := rand.New(rand.NewPCG(1, 1))
	var durations [1024]sim.Time
	for i := range durations {
		durations[i] = sim.Time(5 + rng.Float64())
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		p.Gap = durations[i%1024]
		i++
		c.Pass(p)
	}
}

// BenchmarkFold measures the cost of folding a request, including its last pass.
func BenchmarkFold(b *testing.B) {
	for name, how := range map[string]Quantiles{"sketched": Sketched, "exact": Exact} {
		b.Run(name, func(b *testing.B) {
			c, err := NewFolding(Folding{Quantiles: how, Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			var id sim.RequestID
			p := scheduler.Pass{Count: 1}
			rng := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			for b.Loop() {
				at := sim.Time(id)
				c.Arrive(&sim.Request{ID: id, InputTokens: 1000, OutputTokens: 100}, at)
				if id++; id < 1000 {
					continue
				}
				of := id - 1000 // 1,000 requests are in flight
				c.Admit(at, []scheduler.Admission{{Request: of}})
				r := c.Record(of)
				r.First, r.Second, r.Tokens = at+sim.Time(rng.ExpFloat64()*30), at+50, 2
				p.End, p.Marks = at+sim.Time(560+rng.ExpFloat64()*400), append(p.Marks[:0], scheduler.Mark{Request: of, Tokens: 100, Last: true})
				c.Pass(&p)
			}
			c.Report(0)
		})
	}
}
