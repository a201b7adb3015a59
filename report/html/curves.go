package html

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/series"
)

// curve is the distribution of a latency in ms.
type curve struct {
	Quantiles []float64 `json:"q"`     // values at the shares of curveQuantiles
	Edges     []float64 `json:"edges"` // of bins of equal ratio; one more than Shares
	Shares    []float64 `json:"share"` // of all values, by bin
	N         int       `json:"n"`
}

// curveQuantiles returns the shares of the points of curves, dense in the tails.
func curveQuantiles() []float64 {
	var all []float64
	for i := range 180 {
		all = append(all, float64(i)/200)
	}
	for i := range 90 {
		all = append(all, 0.9+float64(i)/1000)
	}
	for i := range 90 {
		all = append(all, 0.99+float64(i)/10000)
	}
	all = append(all, 0.999, 0.9995, 0.9999, 1)
	for i := range all {
		all[i] = math.Round(all[i]*1e5) / 1e5
	}
	return all
}

// newCurves returns the distributions of the named latencies.
func newCurves(r *Run, names []string) map[string]*curve {
	all := map[string]*curve{}
	for _, name := range names {
		if name == "itl" && r.Series != nil && r.Series.Gaps.Total > 0 {
			all[name] = ofHistogram(&r.Series.Gaps)
			all[name].pinQuantiles(&r.Report.ITL)
		} else {
			all[name] = ofRows(r.Rows, valueOf(name))
		}
	}
	return all
}

func ofRows(rows []requests.Row, value func(*requests.Row) requests.MS) *curve {
	values := requests.KnownTimes(rows, value)
	slices.Sort(values)
	var h series.Histogram
	for _, v := range values {
		h.Add(v, 1)
	}
	c := binsOf(&h)
	for i, q := range curveQuantiles() {
		if len(values) > 0 {
			rank := min(max(int(math.Ceil(q*float64(len(values))))-1, 0), len(values)-1)
			c.Quantiles[i] = roundDigits(values[rank])
		}
	}
	return c
}

// pinQuantiles replaces percentiles of a histogram, which are off by up to a bin, with the percentiles of the report.
// pinQuantiles keeps all other percentiles in increasing order.
func (c *curve) pinQuantiles(d *collector.Distribution) {
	if d.Max == 0 {
		return // not known, or nothing to be off by
	}
	known := map[float64]float64{0.5: d.Median, 0.75: d.P75, 0.9: d.P90, 0.95: d.P95, 0.99: d.P99, 1: d.Max}
	for i, q := range curveQuantiles() {
		exact, ok := known[q]
		if !ok {
			continue
		}
		c.Quantiles[i] = roundDigits(exact)
		for k := range c.Quantiles {
			if k < i {
				c.Quantiles[k] = min(c.Quantiles[k], c.Quantiles[i])
			} else {
				c.Quantiles[k] = max(c.Quantiles[k], c.Quantiles[i])
			}
		}
	}
}

// perBin is the number of histogram bins per bin of a page.
const perBin = 4

func ofHistogram(h *series.Histogram) *curve {
	c := binsOf(h)
	for i, q := range curveQuantiles() {
		c.Quantiles[i] = roundDigits(h.Quantile(q))
	}
	return c
}

// binsOf returns the curve of a histogram without quantiles.
func binsOf(h *series.Histogram) *curve {
	c := &curve{N: h.Total, Quantiles: make([]float64, len(curveQuantiles()))}
	if h.Total == 0 {
		return c
	}
	first := slices.IndexFunc(h.Counts, func(n int) bool { return n > 0 }) / perBin * perBin
	for i := first; i < len(h.Counts); i += perBin {
		n := 0
		for _, k := range h.Counts[i:min(i+perBin, len(h.Counts))] {
			n += k
		}
		c.Edges = append(c.Edges, roundDigits(series.Edge(i)))
		c.Shares = append(c.Shares, roundDigits(float64(n)/float64(h.Total)))
	}
	c.Edges = append(c.Edges, roundDigits(series.Edge(first+perBin*len(c.Shares))))
	return c
}
