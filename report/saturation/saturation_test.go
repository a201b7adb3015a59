package saturation

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// serve returns the records of n requests with exponential gaps of the given mean. The requests are served first
// come, first served, by servers that take 1 s each.
func serve(n, seats int, gap float64, seed uint64) []collector.Record {
	rng := rand.New(rand.NewPCG(seed, 1))
	free := make([]float64, seats)
	var all []collector.Record
	now := 0.0
	for range n {
		now += -gap * math.Log(1-rng.Float64())
		seat := 0
		for i := range free {
			if free[i] < free[seat] {
				seat = i
			}
		}
		start := max(now, free[seat])
		free[seat] = start + 1000
		all = append(all, collector.Record{Arrival: sim.Time(now), Admit: sim.Time(start), First: sim.Time(start + 10), Last: sim.Time(start + 1000), Tokens: 10})
	}
	return all
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		seats int
		gap   float64 // ms; 10 seats are full at 100
		want  Verdict
		least int // of 200 seeds
	}{
		{"half the load", 2000, 10, 200, Stable, 195},
		{"nine tenths of the load", 2000, 10, 111, Backlogged, 100},
		{"a tenth too much", 2000, 10, 91, Overloaded, 190},
		{"twice too much", 300, 10, 50, Overloaded, 200},
		{"five times too much, for a moment", 100, 10, 20, Overloaded, 195},
		{"half the load, for two latencies", 1000, 1000, 2, Unsettled, 200},
		{"too few", 50, 10, 10, Unsettled, 200},
	} {
		got := map[Verdict]int{}
		for seed := range uint64(200) {
			got[judgeQueue(serve(c.n, c.seats, c.gap, seed)).Verdict]++
		}
		t.Logf("%s: %v", c.name, got)
		if got[c.want] < c.least {
			t.Errorf("%s: %v, want at least %d %s", c.name, got, c.least, c.want)
		}
	}
}

// TestBacklogThatWent checks a burst in the middle of a low load.
func TestBacklogThatWent(t *testing.T) {
	all := serve(1000, 10, 200, 1)
	for i := 400; i < 500; i++ {
		all[i].Admit += 4000
		all[i].First += 4000
		all[i].Last += 4000
	}
	if s := judgeQueue(all); s.Verdict != Backlogged {
		t.Errorf("%+v, want a backlog", s)
	}
}

// TestNeverAdmitted checks requests that still wait when a replay ends early.
func TestNeverAdmitted(t *testing.T) {
	all := serve(400, 10, 200, 1)
	for i := 200; i < 400; i++ {
		all[i] = collector.Record{Arrival: all[i].Arrival, Admit: -1}
	}
	all[399].Arrival += 60000
	if s := judgeQueue(all); s.Verdict == Stable {
		t.Errorf("%+v, want no stable run", s)
	}
}

func TestTrend(t *testing.T) {
	up := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	if z := measureTrend(up); math.Abs(z-4.457) > 0.01 { // 65 / sqrt(12·11·29/18)
		t.Errorf("rising: %v", z)
	}
	if z := measureTrend([]float64{3, 3, 3}); z != 0 {
		t.Errorf("level: %v", z)
	}
	if z := measureTrend([]float64{2, 1}); z > 0 {
		t.Errorf("falling: %v", z)
	}
}

// noteRecords adds the records to a collector. Some are shed, and some are lost before their admission.
func noteRecords(c *collector.Collector, records []collector.Record) {
	for i, r := range records {
		id := sim.RequestID(i)
		c.Arrive(&sim.Request{ID: id, InputTokens: 5, OutputTokens: 10}, r.Arrival)
		switch {
		case i%50 == 7:
			c.GiveUp(id, collector.Shed, 0, 0)
			continue
		case i%50 == 8:
			c.GiveUp(id, collector.Lost, 0, 0)
			continue
		case i%50 == 9:
			c.Reject(id, "max_model_len", 0)
			continue
		}
		c.Admit(r.Admit, []scheduler.Admission{{Request: id}})
		c.Pass(&scheduler.Pass{Count: 1, End: r.First, Marks: []scheduler.Mark{{Request: id, Tokens: 1, First: true}}})
		c.Pass(&scheduler.Pass{Count: 1, End: r.Last, Marks: []scheduler.Mark{{Request: id, Tokens: 10, Last: true}}})
	}
}

// Folded requests give the same verdict. With exact quantiles or few requests it is equal to the last bit, otherwise
// within a thousandth.
func TestOfFolded(t *testing.T) {
	for _, n := range []int{0, 59, 61, 5000, 100_001} {
		for _, how := range []collector.Quantiles{collector.Exact, collector.Sketched} {
			plain := collector.New(n)
			folded, err := collector.NewFolding(collector.Folding{Quantiles: how, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			records := serve(n, 10, 105, uint64(n))
			noteRecords(plain, records)
			noteRecords(folded, records)
			folded.FoldAll()
			want, got := Of(plain), Of(folded)
			if near := math.Abs(got.WaitFirst-want.WaitFirst) <= want.WaitFirst/1000 && math.Abs(got.WaitLast-want.WaitLast) <= want.WaitLast/1000 && math.Abs(got.WaitMost-want.WaitMost) <= want.WaitMost/1000; near && n > 1<<15 && how == collector.Sketched {
				got.WaitFirst, got.WaitLast, got.WaitMost = want.WaitFirst, want.WaitLast, want.WaitMost
			}
			if got != want {
				t.Errorf("%d requests: got %+v, want %+v", n, got, want)
			}
			if err := folded.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Requests that are rejected on arrival do not wait: the verdict is that of the admitted requests.
func TestRejectedNeverWait(t *testing.T) {
	records := serve(3000, 10, 40, 5)
	all := collector.New(len(records))
	var kept []collector.Record
	for i := range records {
		r := &records[i]
		id := sim.RequestID(i)
		all.Arrive(&sim.Request{ID: id, InputTokens: 100, OutputTokens: 10}, r.Arrival)
		if i%3 == 0 {
			all.Reject(id, "max_model_len", 0)
			continue
		}
		all.Admit(r.Admit, []scheduler.Admission{{Request: id}})
		all.Pass(&scheduler.Pass{Count: 1, End: r.First, Marks: []scheduler.Mark{{Request: id, Tokens: 1, First: true}}})
		all.Pass(&scheduler.Pass{Count: 1, End: r.Last, Marks: []scheduler.Mark{{Request: id, Tokens: 10, Last: true}}})
		kept = append(kept, *r)
	}
	if got, want := Of(all), judgeQueue(kept); got.Verdict != want.Verdict || got.WaitMost != want.WaitMost {
		t.Errorf("with a third rejected: %+v, of the others alone %+v", got, want)
	}
}
