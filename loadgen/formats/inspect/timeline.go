package inspect

import "math"

// Timeline counts arrivals in time spans of equal width. If an arrival is outside of the range of all spans, their
// width is doubled. The counts remain exact.
type Timeline struct {
	N           int64
	First, Last float64 // arrivals, ms
	Width       float64 // ms of a span
	gaps        int64
	gapMean     float64 // mean gap in ms; gaps are between consecutive rows of the file
	gapSquares  float64 // sum of squared differences from the mean
	previous    float64

	from   int64 // index of the first span, which starts at from × Width
	counts []int64
}

const spans = 4096

func newTimeline() Timeline { return Timeline{Width: 1} }

func (t *Timeline) add(at float64) {
	if t.N == 0 {
		t.First, t.Last = at, at
	} else {
		t.gap(at - t.previous)
	}
	t.previous = at
	t.N++
	t.First, t.Last = min(t.First, at), max(t.Last, at)
	for t.Last/t.Width-t.First/t.Width > spans-2 || math.Abs(at/t.Width) > 1<<52 {
		t.widen()
	}
	i := int64(math.Floor(at / t.Width))
	switch {
	case len(t.counts) == 0:
		t.from = i
	case i < t.from:
		t.counts = append(make([]int64, t.from-i), t.counts...)
		t.from = i
	}
	for i-t.from >= int64(len(t.counts)) {
		t.counts = append(t.counts, 0)
	}
	t.counts[i-t.from]++
}

// gap updates the mean and the variance of gaps.
func (t *Timeline) gap(g float64) {
	t.gaps++
	off := g - t.gapMean
	t.gapMean += off / float64(t.gaps)
	t.gapSquares += float64(off * (g - t.gapMean))
}

// Burstiness returns the coefficient of variation of the gaps between arrivals: 1 for a Poisson process, 0 for equal
// gaps.
func (t *Timeline) Burstiness() float64 {
	if t.gaps == 0 || t.gapMean == 0 {
		return 0
	}
	return math.Sqrt(t.gapSquares/float64(t.gaps)) / math.Abs(t.gapMean)
}

// widen doubles the width of spans.
func (t *Timeline) widen() {
	if len(t.counts) > 0 {
		from, last := t.from>>1, (t.from+int64(len(t.counts))-1)>>1 // >> rounds down, also for negative numbers
		counts := make([]int64, last-from+1)
		for k, n := range t.counts {
			counts[(t.from+int64(k))>>1-from] += n
		}
		t.from, t.counts = from, counts
	}
	t.Width *= 2
}

// Duration is the time from the first arrival to the last, in ms.
func (t *Timeline) Duration() float64 { return t.Last - t.First }

// Rate returns the mean number of arrivals per second between the first and the last arrival.
func (t *Timeline) Rate() float64 {
	if t.Duration() <= 0 {
		return 0
	}
	return float64(t.N-1) / t.Duration() * 1000
}

// Span is a range of the timeline.
type Span struct {
	Start, Width float64 // ms; Start is relative to the first arrival
	Arrivals     int64
}

// Rate returns arrivals per second.
func (s Span) Rate() float64 { return float64(s.Arrivals) / s.Width * 1000 }

// Spans returns the timeline as at most most spans of equal width.
func (t *Timeline) Spans(most int) []Span {
	if len(t.counts) == 0 {
		return nil
	}
	join := (len(t.counts) + most - 1) / most
	var all []Span
	for k := 0; k < len(t.counts); k += join {
		s := Span{Start: float64(t.from+int64(k))*t.Width - t.First, Width: float64(join) * t.Width}
		for _, n := range t.counts[k:min(k+join, len(t.counts))] {
			s.Arrivals += n
		}
		all = append(all, s)
	}
	all[0].Start = max(all[0].Start, 0)
	return all
}

// Peak returns the span with the most arrivals. The width of the span is at least one second.
func (t *Timeline) Peak() Span {
	join := max(1, int(math.Ceil(1000/t.Width)))
	var best Span
	sum := int64(0)
	for k, n := range t.counts {
		sum += n
		if k >= join {
			sum -= t.counts[k-join]
		}
		if sum > best.Arrivals {
			best = Span{float64(t.from+int64(k-join+1))*t.Width - t.First, float64(join) * t.Width, sum}
		}
	}
	best.Start = max(best.Start, 0)
	return best
}
