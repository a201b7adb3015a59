package collector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// drawSpans draws runs of passes with durations that grow by a step, jump, or differ strongly.
func drawSpans(rng *rand.Rand) (runs [][]int64, weights []int64) {
	scale := int64(1) << rng.IntN(38)
	for range 1 + rng.IntN(60) {
		at, step := rng.Int64N(2*scale), rng.Int64N(1+scale/100)
		if rng.IntN(20) == 0 {
			at *= 100
		}
		run := make([]int64, 1+rng.IntN(200))
		for i := range run {
			at += step + rng.Int64N(2)
			if rng.IntN(50) == 0 {
				at = rng.Int64N(2 * scale)
			}
			if run[i] = min(at, 1<<40-1); rng.IntN(100) == 0 {
				run[i] = 0
			}
		}
		runs, weights = append(runs, run), append(weights, rng.Int64N(30))
	}
	return runs, weights
}

// TestSpans checks that spans keep the added values, and that their distributions equal those of a list of the
// values.
func TestSpans(t *testing.T) {
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 31))
		runs, weights := drawSpans(rng)
		var s spans
		var all []int64
		for i, run := range runs {
			s.add(run, weights[i])
			for _, n := range run {
				for range weights[i] {
					all = append(all, n)
				}
			}
		}
		var kept []int64
		var buf [mostInSpan]int64
		s.each(func(k *span, offs []byte) {
			nanos := k.nanos(offs, &buf)
			least, most := k.bounds()
			if slices.Min(nanos) < least || slices.Max(nanos) > most {
				t.Fatalf("seed %d: %v outside %d to %d", seed, nanos, least, most)
			}
			for _, n := range nanos {
				for range k.weight {
					kept = append(kept, n)
				}
			}
		})
		slices.Sort(kept)
		slices.Sort(all)
		if !slices.Equal(kept, all) || s.n != int64(len(all)) {
			t.Fatalf("seed %d: %d latencies kept (%d counted) are not the %d added", seed, len(kept), s.n, len(all))
		}
		if len(all) > 0 {
			checkSpans(t, &s, all)
		}
	}
}

// TestWideSpans checks a span with values that do not fit in a word.
func TestWideSpans(t *testing.T) {
	for _, first := range []int64{0, 1<<atStep - 1, 1 << atStep, 1<<40 - 1} {
		for _, weight := range []int64{1, 1<<11 - 1, 1 << 11, 1<<32 - 1} {
			for _, step := range []int64{0, math.MaxInt16, math.MaxInt16 + 1, math.MinInt16, math.MinInt16 - 1, math.MaxInt32, math.MinInt32} {
				if second := first + step; second < 0 || second+step < 0 || second+step >= 1<<40 {
					continue
				}
				var s spans
				want := []int64{first, first + step, first + 2*step}
				s.add(want, weight)
				var got []int64
				var buf [mostInSpan]int64
				s.each(func(k *span, offs []byte) {
					if int64(k.weight) != weight {
						t.Errorf("weight %d, want %d", k.weight, weight)
					}
					got = append(got, k.nanos(offs, &buf)...)
				})
				if !slices.Equal(got, want) {
					t.Errorf("latencies %v of weight %d, want %v", got, weight, want)
				}
			}
		}
	}
}

// checkSpans compares the distributions of s with those of all latencies, sorted.
func checkSpans(t *testing.T, s *spans, all []int64) {
	t.Helper()
	var times, perSecond []float64
	for _, n := range all {
		if times = append(times, float64(n)/1e6); n > 0 {
			perSecond = append(perSecond, 1e9/float64(n))
		}
	}
	latencies, rates := s.describe()
	for _, c := range []struct {
		name      string
		got, want Distribution
	}{{"latencies", latencies, Describe(slices.Clone(times))}, {"rates", rates, Describe(perSecond)}} {
		if math.Abs(c.got.Mean-c.want.Mean) > 1e-12*c.want.Mean || math.Abs(c.got.Std-c.want.Std) > 1e-12*c.want.Std+1e-9*c.want.Mean {
			t.Fatalf("%s: mean %v and deviation %v, want %v and %v", c.name, c.got.Mean, c.got.Std, c.want.Mean, c.want.Std)
		}
		c.got.Mean, c.got.Std = c.want.Mean, c.want.Std
		if c.got != c.want {
			t.Fatalf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
	for _, p := range []float64{0, 12.3, 99.9, 100} {
		if got, want := s.percentile(p), times[NearestRank(int64(len(times)), p)]; got != want {
			t.Fatalf("percentile %v is %v, want %v", p, got, want)
		}
	}
}

// TestSpansInAnyOrder checks that neither the order of passes nor their division into runs changes the result.
func TestSpansInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 32))
	runs, weights := drawSpans(rng)
	var a, b spans
	for i, run := range runs {
		a.add(run, weights[i])
	}
	for _, i := range rng.Perm(len(runs)) {
		for rest := runs[i]; len(rest) > 0 && weights[i] > 0; {
			n := 1 + rng.IntN(len(rest))
			b.add(rest[:n], 1)
			b.add(rest[:n], weights[i]-1)
			rest = rest[n:]
		}
	}
	x, xRates := a.describe()
	y, yRates := b.describe()
	if x != y || xRates != yRates {
		t.Errorf("%+v and %+v, in another order %+v and %+v", x, xRates, y, yRates)
	}
}

// TestSpansAndGaps checks that latencies in whole ns and fractional latencies are counted together, also in a report
// before the end.
func TestSpansAndGaps(t *testing.T) {
	c := New(0)
	whole := &scheduler.Pass{End: 3, Count: 2, Ends: []sim.Time{1, 3}, Nanos: []int64{1e6, 2e6}, Decoding: 3, Gaps: []sim.Time{5}}
	c.Pass(whole)
	if d := c.Report(0).ITL; d.Mean != 2 || d.Max != 5 || d.Median != 2 {
		t.Errorf("whole: %+v", d)
	}
	c.Pass(&scheduler.Pass{Start: 3, End: 3.5, Count: 1, Gap: 0.5, Decoding: 1})
	c.Pass(whole)
	for range 2 {
		r := c.Report(0)
		if d, u := r.ITL, r.UserThroughput; d.Mean != 28.5/15 || d.Min != 0.5 || d.Max != 5 || u.Max != 2000 || u.Min != 200 {
			t.Errorf("both: %+v, %+v", d, u)
		}
	}
	if p, ok := c.Percentile("itl_ms", 100); p != 5 || !ok {
		t.Errorf("percentile 100 is %v, want 5", p)
	}
}

// TestSpansAllocateSeldom checks that a pass allocates only the memory of its kept values.
func TestSpansAllocateSeldom(t *testing.T) {
	var s spans
	run := []int64{5e6, 5e6 + 100, 5e6 + 201}
	if n := testing.AllocsPerRun(1000, func() { s.add(run, 7) }); n != 0 {
		t.Errorf("%v allocations per run of passes, want 0", n)
	}
	if n := len(s.chunks); n != 1 {
		t.Errorf("%d chunks for 1,001 runs, want 1", n)
	}
}

// TestBuckets checks that successive buckets have no gap.
func TestBuckets(t *testing.T) {
	for b := range buckets {
		first, next := firstOf(b), firstOf(b+1)
		if bucketOf(first) != b || bucketOf(next-1) != b || next <= first {
			t.Fatalf("bucket %d is from %d to %d, in buckets %d and %d", b, first, next, bucketOf(first), bucketOf(next-1))
		}
	}
	if b := bucketOf(1<<40 - 1); b != buckets-1 {
		t.Errorf("the largest latency is in bucket %d, want %d", b, buckets-1)
	}
}

// TestShortSpansAreSmall checks that a short run of five latencies takes at most 14 bytes.
func TestShortSpansAreSmall(t *testing.T) {
	const runs = 100_000
	var s spans
	rng := rand.New(rand.NewPCG(1, 2))
	for range runs {
		first := 8_000_000 + rng.Int64N(1<<19)
		s.add([]int64{first, first + 300, first + 601, first + 900, first + 1201}, 1+rng.Int64N(60))
	}
	bytes := 0
	for i := range s.chunks {
		bytes += cap(s.chunks[i].text)
	}
	if bytes > 14*runs {
		t.Errorf("%d bytes for %d runs of five latencies, want at most %d", bytes, runs, 14*runs)
	}
	var total int64
	var buf [mostInSpan]int64
	s.each(func(k *span, offs []byte) { total += int64(len(k.nanos(offs, &buf))) })
	if total != 5*runs {
		t.Errorf("%d latencies, want %d", total, 5*runs)
	}
}
