package collector

import (
	"errors"
	"math"
	"slices"
)

// The constants are the metrics with one value per request.
const (
	ttft = iota
	ttst
	tpot
	e2e
	metrics
)

// series is sums and quantiles of a list of values >= 0. The values are added in order.
type series struct {
	n       int64
	sum     float64
	least   float64
	most    float64
	precise double // sum with a higher precision
	squares double
	counts  sketch
	spool   *spool // the values in order; nil: the values are sketched
}

// add adds a value.
func (s *series) add(v float64) {
	if s.n == 0 {
		s.least, s.most = v, v
	}
	s.n++
	s.sum += v
	s.least, s.most = min(s.least, v), max(s.most, v)
	s.counts.add(v, 1)
	if s.spool != nil {
		s.spool.add(math.Float64bits(v))
		return
	}
	s.precise.add(v)
	s.squares.addProduct(v, v)
}

// Values is sums and quantiles of a list of values >= 0 that is not kept in memory.
type Values struct{ series }

// NewValues returns an empty list with the given method for quantiles.
func NewValues(how Folding) (v *Values, err error) {
	v = &Values{}
	if how.Quantiles == Exact {
		v.spool, err = newSpool(how.Dir)
	}
	return v, err
}

// Add adds a value.
func (v *Values) Add(x float64) { v.add(x) }

// Describe returns the distribution of the values.
func (v *Values) Describe() Distribution { return v.describe() }

// Close closes the temporary file, if any, and returns its first error.
func (v *Values) Close() error { return errors.Join(v.spool.failed(), v.spool.close()) }

// describe returns the distribution of the values.
func (s *series) describe() Distribution {
	if s.n == 0 {
		return Distribution{}
	}
	d := Distribution{Mean: s.sum / float64(s.n), Min: s.least, Max: s.most}
	ps := wantedPercentiles()
	var at []float64
	if s.spool == nil {
		d.Std = deviationOf(s.n, &s.precise, &s.squares)
		at = s.sketchPercentiles(ps[:])
	} else {
		squares := 0.0
		at = s.pickPercentiles(ps[:], func(words []int64) {
			for _, w := range words {
				v := math.Float64frombits(uint64(w))
				squares += float64((v - d.Mean) * (v - d.Mean))
			}
		})
		d.Std = math.Sqrt(squares / float64(s.n))
	}
	d.Median, d.P75, d.P90, d.P95, d.P99 = at[0], at[1], at[2], at[3], at[4]
	return d
}

// percentile returns the percentile p of the values, 0 if there are none.
func (s *series) percentile(p float64) float64 {
	switch {
	case s.n == 0:
		return 0
	case s.spool == nil:
		return s.sketchPercentiles([]float64{p})[0]
	}
	return s.pickPercentiles([]float64{p}, func([]int64) {})[0]
}

func (s *series) sketchPercentiles(ps []float64) []float64 {
	values := s.counts.values(s.least, s.most)
	at := make([]float64, len(ps))
	for i, p := range ps {
		at[i] = values.percentile(p)
	}
	return at
}

// pickPercentiles returns the percentiles ps, which must ascend, by reading the values again. The first reading calls
// show with the values in order.
func (s *series) pickPercentiles(ps []float64, show func(words []int64)) []float64 {
	ranks, order := make([]int64, len(ps)), make([]int, len(ps))
	for i, p := range ps {
		ranks[i], order[i] = NearestRank(s.n, p), i
	}
	words := make([]int64, len(ps))
	cells := s.counts.findCells(ranks, order, words)
	for first := true; first || len(cells) > 0; first = false {
		openCells(cells)
		s.spool.each(func(part []int64) {
			if first {
				show(part)
			}
			if len(cells) > 0 {
				countNear(cells, part, 1)
			}
		})
		var next []cell
		for i := range cells {
			next = cells[i].divide(ranks, words, next)
		}
		cells = next
	}
	at := make([]float64, len(ps))
	for i, w := range words {
		at[i] = math.Float64frombits(uint64(w))
	}
	return at
}

// findCells returns the buckets that contain the given ranks, which must ascend, as ranges of words. For ranks of
// zeros, findCells sets the word instead.
func (s *sketch) findCells(ranks []int64, left []int, words []int64) (cells []cell) {
	below := s.zeros
	for len(left) > 0 && ranks[left[0]] < below {
		words[left[0]] = 0
		left = left[1:]
	}
	for i, count := range s.counts {
		n := slices.IndexFunc(left, func(r int) bool { return ranks[r] >= below+count })
		if n < 0 {
			n = len(left)
		}
		if n > 0 {
			cells = append(cells, cell{low: int64(s.first+i) << sketchShift, size: 1 << sketchShift, below: below, ranks: left[:n]})
		}
		left = left[n:]
		below += count
	}
	return cells
}
