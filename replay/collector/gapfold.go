package collector

import (
	"math"
	"math/big"
)

// mostGaps is the maximum number of different gaps that are kept before they are sketched.
const mostGaps = 1 << 19

// gapFold is the sums of sketched inter-token latencies.
type gapFold struct{ latencies, rates folded }

// folded is sums and a sketch of weighted values >= 0.
type folded struct {
	n            int64
	sum, squares double
	least, most  float64
	counts       sketch
	middles      weighted // values counted by the buckets of spans
}

// addGaps adds latencies in ms.
func (f *gapFold) addGaps(w weighted) {
	for i, b := range w.bits {
		v := math.Float64frombits(b)
		f.latencies.add(v, w.counts[i])
		if v > 0 {
			f.rates.add(1000.0/v, w.counts[i])
		}
	}
}

// addSpans adds n latencies in whole ns.
func (f *gapFold) addSpans(t *spanTotal, n int64) {
	ns := new(big.Float).SetInt64(1e6)
	f.latencies.addSums(n, new(big.Float).SetInt(t.latencies.sum.integer()), new(big.Float).SetInt(t.latencies.squares.integer()), ns)
	f.latencies.widen(nanosToMS(t.least), nanosToMS(t.most))
	if m := n - t.zeros; m > 0 {
		sum, squares, unit := t.joinRates()
		f.rates.addSums(m, new(big.Float).SetInt(sum), new(big.Float).SetInt(squares), big.NewFloat(unit))
		f.rates.widen(1000.0/nanosToMS(t.most), 1000.0/nanosToMS(t.leastAbove)) // computed as for gaps
	}
	for b, count := range t.coarse {
		if count == 0 {
			continue
		}
		middle := t.middleOf(b)
		f.latencies.middles.add(nanosToMS(middle), count)
		if middle > 0 {
			f.rates.middles.add(nanosToRate(middle), count)
		}
	}
}

func (w *weighted) add(v float64, n int64) {
	w.bits, w.counts = append(w.bits, math.Float64bits(v)), append(w.counts, n)
}

// add adds a value with the weight n.
func (f *folded) add(v float64, n int64) {
	f.widen(v, v)
	f.n += n
	f.sum.addProduct(v, float64(n))
	var square double
	square.addProduct(v, v)
	f.squares.addProduct(square.high, float64(n))
	f.squares.addProduct(square.low, float64(n))
	f.counts.add(v, n)
}

// widen extends the bounds to include the values between least and most.
func (f *folded) widen(least, most float64) {
	if f.n == 0 && f.least == 0 && f.most == 0 {
		f.least, f.most = least, most
	}
	f.least, f.most = min(f.least, least), max(f.most, most)
}

// addSums adds n values by their sum and the sum of their squares, in units of 1/unit.
func (f *folded) addSums(n int64, sum, squares, unit *big.Float) {
	f.n += n
	f.sum.addExact(new(big.Float).SetPrec(256).Quo(sum, unit))
	squares = new(big.Float).SetPrec(256).Quo(squares, unit)
	f.squares.addExact(squares.Quo(squares, unit))
}

// addExact adds x, except for digits that two float64s cannot hold.
func (d *double) addExact(x *big.Float) {
	high, _ := x.Float64()
	low, _ := new(big.Float).SetPrec(256).Sub(x, big.NewFloat(high)).Float64()
	d.add(high)
	d.add(low)
}

// values returns the bucket middles with their counts, ascending.
func (f *folded) values() weighted {
	g := gaps{weighted: f.counts.values(f.least, f.most)}
	g.bits, g.counts = append(g.bits, f.middles.bits...), append(g.counts, f.middles.counts...)
	g.compact()
	return g.weighted
}

func (f *folded) describe() Distribution {
	if f.n == 0 {
		return Distribution{}
	}
	d := Distribution{Min: f.least, Max: f.most, Std: deviationOf(f.n, &f.sum, &f.squares)}
	d.Mean = (f.sum.high + f.sum.low) / float64(f.n)
	values, ps := f.values(), wantedPercentiles()
	for i, to := range []*float64{&d.Median, &d.P75, &d.P90, &d.P95, &d.P99} {
		*to = values.percentile(ps[i])
	}
	return d
}

// foldGaps sketches all latencies if some have been sketched before, or if there are both gaps and spans. foldGaps
// reports whether all latencies are now sketched.
func (c *Collector) foldGaps() bool {
	f := c.gaps.fold
	if f == nil {
		return false
	}
	if f.latencies.n == 0 && (len(c.gaps.bits) == 0 || c.spans.n == 0) {
		return false
	}
	c.gaps.compact()
	f.addGaps(c.gaps.weighted)
	c.gaps.weighted, c.gaps.sorted = weighted{}, 0
	if c.spans.n > 0 {
		f.addSpans(c.spans.total(), c.spans.n)
		c.spans.empty()
	}
	return true
}

// describeGaps returns the distributions of the inter-token latencies, in ms, and of the corresponding rates, in
// tokens per second.
func (c *Collector) describeGaps() (latencies, rates Distribution) {
	switch {
	case c.foldGaps():
		return c.gaps.fold.latencies.describe(), c.gaps.fold.rates.describe()
	case c.joinGaps():
		return c.spans.describe()
	}
	return c.gaps.latencies(), c.gaps.rates()
}

// gapPercentile returns the percentile p of the inter-token latencies.
func (c *Collector) gapPercentile(p float64) float64 {
	switch {
	case c.foldGaps():
		values := c.gaps.fold.latencies.values()
		return values.percentile(p)
	case c.joinGaps():
		return c.spans.percentile(p)
	}
	c.gaps.compact()
	return c.gaps.percentile(p)
}
