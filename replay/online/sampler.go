package online

import "slices"

// sampler keeps a bounded number of evenly spaced values of a series.
type sampler struct {
	values []float64
	stride int // keep one of so many; 0 is 1
	seen   int
	sum    float64
}

// maxSamples is the number of values at which a sampler drops every other one.
const maxSamples = 1 << 15

func (s *sampler) add(v float64) {
	s.sum += v
	s.seen++
	if (s.seen-1)%max(s.stride, 1) != 0 {
		return
	}
	s.values = append(s.values, v)
	if len(s.values) < maxSamples {
		return
	}
	for i := range s.values[:maxSamples/2] {
		s.values[i] = s.values[2*i]
	}
	s.values, s.stride = s.values[:maxSamples/2], 2*max(s.stride, 1)
}

// nearestRank is the nearest-rank quantile q of the values of all samplers, 0
// without any. A sampler with a stride counts as much as what it keeps.
func nearestRank(all []*sampler, q float64) float64 {
	var values []float64
	for _, s := range all {
		values = append(values, s.values...)
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(float64(float64(len(values)-1)*q)+0.5)]
}
