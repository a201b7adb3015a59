package collector

import (
	"math"
	"slices"
)

// Distribution is the statistics of a list of samples. Distribution is the zero value for an empty list.
type Distribution struct {
	Mean, Min, Max             float64
	Median, P75, P90, P95, P99 float64
	Std                        float64 // of the population: the sum of squares is divided by n
}

// wantedPercentiles returns the percentiles of a Distribution, ascending.
func wantedPercentiles() [maxRanks]float64 { return [...]float64{50, 75, 90, 95, 99} }

// NearestRank returns the index of percentile p, 0 to 100, in an ascending list of n >= 1 samples. The result is the
// nearest rank without interpolation, and the upper of two equally near ranks.
func NearestRank(n int64, p float64) int64 {
	return min(n-1, int64(math.Round(float64(n-1)*p/100.0)))
}

// Describe returns the distribution of samples, which must be >= 0. Describe reorders samples.
func Describe(samples []float64) Distribution {
	return describeSamples(samples, make([]float64, len(samples)))
}

// describeSamples returns the distribution of samples, which must be >= 0. The sums are computed in the order of the
// list. samples and buf, of the same length, are overwritten.
func describeSamples(samples, buf []float64) Distribution {
	if len(samples) == 0 {
		return Distribution{}
	}
	var d Distribution
	d.Mean, d.Std = meanAndStd(samples)
	d.Min, d.Max = slices.Min(samples), slices.Max(samples)
	var ranks [maxRanks]int
	for i, p := range wantedPercentiles() {
		ranks[i] = int(NearestRank(int64(len(samples)), p))
	}
	var at [maxRanks]float64
	pickRanks(samples, ranks[:], at[:], buf)
	d.Median, d.P75, d.P90, d.P95, d.P99 = at[0], at[1], at[2], at[3], at[4]
	return d
}

// Percentile returns the percentile p of a distribution of the report, for example of ttft_ms. The result is 0
// without samples. ok reports whether the distribution exists.
func (c *Collector) Percentile(of string, p float64) (value float64, ok bool) {
	var samples []float64
	if of == "itl_ms" {
		return c.gapPercentile(p), true
	}
	if c.fold != nil {
		at, ok := map[string]int{"ttft_ms": ttft, "ttst_ms": ttst, "tpot_ms": tpot, "e2e_latency_ms": e2e}[of]
		if !ok {
			return 0, false
		}
		return c.fold.metrics[at].percentile(p), true
	}
	switch of {
	case "ttft_ms":
		samples = c.appendSamples(nil, 1, func(r *Record) float64 { return float64(r.TTFT()) })
	case "ttst_ms":
		samples = c.appendSamples(nil, 2, func(r *Record) float64 { return float64(r.TTST()) })
	case "tpot_ms":
		samples = c.appendSamples(nil, 2, func(r *Record) float64 { return float64(r.TPOT()) })
	case "e2e_latency_ms":
		samples = c.appendSamples(nil, 1, func(r *Record) float64 { return float64(r.E2E()) })
	default:
		return 0, false
	}
	if len(samples) == 0 {
		return 0, true
	}
	var at [1]float64
	pickRanks(samples, []int{int(NearestRank(int64(len(samples)), p))}, at[:], make([]float64, len(samples)))
	return at[0], true
}

// percentile returns the percentile p of ascending values, 0 if there are none.
func (w *weighted) percentile(p float64) float64 {
	var n, below int64
	for _, c := range w.counts {
		n += c
	}
	if n == 0 {
		return 0
	}
	i := 0
	for r := NearestRank(n, p); below+w.counts[i] <= r; i++ {
		below += w.counts[i]
	}
	return math.Float64frombits(w.bits[i])
}

func meanAndStd(samples []float64) (mean, std float64) {
	n := float64(len(samples))
	sum := 0.0
	for _, v := range samples {
		sum += v
	}
	mean = sum / n
	squares := 0.0
	for _, v := range samples {
		squares += float64((v - mean) * (v - mean))
	}
	return mean, math.Sqrt(squares / n)
}

// describeWeighted returns the distribution of ascending values with their weights.
func describeWeighted(w weighted) Distribution {
	if len(w.bits) == 0 {
		return Distribution{}
	}
	value := func(i int) float64 { return math.Float64frombits(w.bits[i]) }
	counts := w.counts[:len(w.bits)]
	d := Distribution{Min: value(0), Max: value(len(w.bits) - 1)}
	var n int64
	sum := 0.0
	for i, b := range w.bits {
		v := math.Float64frombits(b)
		n += counts[i]
		sum += float64(v * float64(counts[i]))
	}
	d.Mean = sum / float64(n)
	squares := 0.0
	for i, b := range w.bits {
		v := math.Float64frombits(b)
		squares += float64(float64((v-d.Mean)*(v-d.Mean)) * float64(counts[i]))
	}
	d.Std = math.Sqrt(squares / float64(n))

	var at [maxRanks]float64
	i, below := 0, int64(0) // below is the number of samples before value i
	for j, p := range wantedPercentiles() {
		for r := NearestRank(n, p); below+counts[i] <= r; i++ {
			below += counts[i]
		}
		at[j] = value(i)
	}
	d.Median, d.P75, d.P90, d.P95, d.P99 = at[0], at[1], at[2], at[3], at[4]
	return d
}
