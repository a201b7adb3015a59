package diff

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/sim"
)

// Paired holds the confidence intervals of latency differences, from a paired bootstrap: the times of the same
// requests in both runs are resampled together. The bootstrap draws stretches of neighbouring requests, since
// requests that wait in one queue are late together.
type Paired struct {
	Pairs     int          `json:"pairs"`
	Resamples int          `json:"resamples"`
	Stretch   int          `json:"stretch"`   // number of neighbours that are drawn together
	Stretches int          `json:"stretches"` // of that length, in all pairs
	Metrics   []PairedStat `json:"metrics"`
	Repeats   int          `json:"repeats,omitempty"` // seeds that the intervals come from; 0: one
}

// PairedStat is a statistic of the pairs. A smaller value is better for all statistics.
type PairedStat struct {
	Metric    string  `json:"metric"`    // ttft, tpot, itl (all gaps pooled) or e2e
	Statistic string  `json:"statistic"` // mean or p99
	Pairs     int     `json:"pairs"`     // number of pairs with this time on both sides
	A         float64 `json:"a"`
	B         float64 `json:"b"`
	Change    float64 `json:"change"` // B - A
	// Low and High bound the middle 95 % of the resampled changes; nil with too few pairs.
	Low     *float64 `json:"low"`
	High    *float64 `json:"high"`
	Verdict Verdict  `json:"verdict"`
}

// Verdict reports whether the difference of A and B is larger than chance explains.
type Verdict string

const (
	Win    Verdict = "win"     // the interval is below 0: B is faster
	Lose   Verdict = "lose"    // the interval is above 0: B is slower
	Tie    Verdict = "tie"     // 0 is in the interval
	TooFew Verdict = "too few" // pairs for an interval
)

// OneSeed is the verdict if the router draws random numbers and only one seed was replayed. The first different draw
// changes all later events, so that one pair of runs does not show the size of the effect.
const OneSeed Verdict = "one seed"

const (
	pairedResamples = 1000
	pairedSeed      = 42
	fewestForMean   = 30  // number of pairs
	fewestForP99    = 300 // pairs: three above it
	fewestStretches = 6   // minimum number, for any correlation time
	stretchTimes    = 4   // minimum length of a stretch, in correlation times
)

// pairedTime is a time of both requests of a pair. The mean is a sum divided by a weight. Times of requests have
// weight 1, and each gap between tokens has weight 1.
type pairedTime struct {
	name string
	at   func(*requests.Row) (sum, weight float64)
	tail bool // its p99 is derived too; that of pooled gaps is not in the rows
}

func listPairedTimes() []pairedTime {
	single := func(name string, at func(*requests.Row) requests.MS) pairedTime {
		return pairedTime{name, func(r *requests.Row) (float64, float64) {
			if ms := at(r); ms.Known() {
				return float64(ms), 1
			}
			return 0, 0
		}, true}
	}
	return []pairedTime{
		single("ttft", func(r *requests.Row) requests.MS { return r.TTFT }),
		single("tpot", func(r *requests.Row) requests.MS { return r.TPOT }),
		{"itl", func(r *requests.Row) (float64, float64) {
			if !r.TPOT.Known() {
				return 0, 0
			}
			return float64(r.Last - r.First), float64(r.Tokens - 1)
		}, false},
		single("e2e", func(r *requests.Row) requests.MS { return r.E2E }),
	}
}

// pair is one request in both runs.
type pair struct{ a, b *requests.Row }

// comparePairs resamples the pairs, which must be in order of arrival.
func comparePairs(pairs []pair) *Paired {
	n := len(pairs)
	p := &Paired{Pairs: n, Resamples: pairedResamples, Stretch: max(1, int(math.Round(math.Sqrt(float64(n)))))}
	var series []*pairSeries
	for _, t := range listPairedTimes() {
		s := newPairSeries(t, pairs)
		series = append(series, s)
		p.Stretch = max(p.Stretch, min(n/fewestStretches, int(math.Ceil(stretchTimes*correlationTime(s.differences())))))
	}
	p.Stretches = n / max(1, p.Stretch)
	changes := make([][2][]float64, len(series)) // changes of means and of p99s
	if n >= fewestForMean {
		draw := newStretches(n, p.Stretch)
		for range p.Resamples {
			draw.next()
			for i, s := range series {
				if a, b, ok := s.means(draw.spans); ok {
					changes[i][0] = append(changes[i][0], b-a)
				}
				if a, b, ok := s.tails(draw); ok && s.pairs >= fewestForP99 {
					changes[i][1] = append(changes[i][1], b-a)
				}
			}
		}
	}
	draw := wholeOf(n)
	for i, s := range series {
		if a, b, ok := s.means(draw.spans); ok {
			p.Metrics = append(p.Metrics, s.describe("mean", [2]float64{a, b}, changes[i][0], p.Stretches))
		}
		if a, b, ok := s.tails(draw); ok {
			p.Metrics = append(p.Metrics, s.describe("p99", [2]float64{a, b}, changes[i][1], p.Stretches))
		}
	}
	return p
}

// pairSeries holds one time of all pairs.
type pairSeries struct {
	name  string
	pairs int // that have it
	// before holds, for each pair, the sums over all earlier pairs. With these sums a stretch costs no more than a
	// pair.
	before []pairSums
	value  [2][]float64 // by side and pair, when there is a p99
	order  [2][]int32   // pairs with this time, the largest value first
}

// pairSums holds the sums and weights of sides A and B, and the number of pairs with the time.
type pairSums struct {
	sum, weight [2]float64
	known       int
}

func newPairSeries(t pairedTime, pairs []pair) *pairSeries {
	s := &pairSeries{name: t.name, before: make([]pairSums, len(pairs)+1)}
	for i, p := range pairs {
		next := s.before[i]
		x, wx := t.at(p.a)
		y, wy := t.at(p.b)
		if wx > 0 && wy > 0 {
			next.sum[0], next.sum[1] = next.sum[0]+x, next.sum[1]+y
			next.weight[0], next.weight[1] = next.weight[0]+wx, next.weight[1]+wy
			next.known++
			if t.tail {
				s.order[0], s.order[1] = append(s.order[0], int32(i)), append(s.order[1], int32(i))
			}
		}
		if t.tail {
			s.value[0], s.value[1] = append(s.value[0], x), append(s.value[1], y)
		}
		s.before[i+1] = next
	}
	s.pairs = s.before[len(pairs)].known
	for side, value := range s.value {
		slices.SortFunc(s.order[side], func(i, j int32) int { return cmp.Compare(value[j], value[i]) })
	}
	return s
}

// differences returns, for each pair with the time, the difference of the two sides per unit of weight.
func (s *pairSeries) differences() []float64 {
	var all []float64
	for i := 1; i < len(s.before); i++ {
		from, to := &s.before[i-1], &s.before[i]
		if to.known > from.known {
			all = append(all, (to.sum[1]-from.sum[1])/(to.weight[1]-from.weight[1])-(to.sum[0]-from.sum[0])/(to.weight[0]-from.weight[0]))
		}
	}
	return all
}

// correlationTime returns the number of neighbours over which values are correlated: the integrated autocorrelation
// time, summed up to the first lag that is at least 5 times the sum.
func correlationTime(values []float64) float64 {
	n := len(values)
	mean, variance := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(n)
	}
	for _, v := range values {
		variance += float64((v - mean) * (v - mean))
	}
	time := 1.0
	for lag := 1; variance > 0 && lag < n/2 && float64(lag) < 5*time; lag++ {
		sum := 0.0
		for i := lag; i < n; i++ {
			sum += float64((values[i] - mean) * (values[i-lag] - mean))
		}
		time = max(1, time+2*sum/variance)
	}
	return time
}

// means returns the means of both sides over spans. ok is false if no pair has the time.
func (s *pairSeries) means(spans []span) (a, b float64, ok bool) {
	var all pairSums
	for _, p := range spans {
		from, to := &s.before[p.from], &s.before[p.to]
		for side := range all.sum {
			all.sum[side] += to.sum[side] - from.sum[side]
			all.weight[side] += to.weight[side] - from.weight[side]
		}
		all.known += to.known - from.known
	}
	if all.known == 0 {
		return 0, 0, false
	}
	return all.sum[0] / all.weight[0], all.sum[1] / all.weight[1], true
}

// tails returns the 99th percentiles of both sides, by nearest rank as in reports.
func (s *pairSeries) tails(d *stretches) (a, b float64, ok bool) {
	n := 0
	for _, p := range d.spans {
		n += s.before[p.to].known - s.before[p.from].known
	}
	if n == 0 || s.value[0] == nil {
		return 0, 0, false
	}
	above := n - 1 - int(collector.NearestRank(int64(n), 99))
	var at [2]float64
	for side, order := range s.order {
		seen := 0
		for _, i := range order {
			if seen += int(d.times[i]); seen > above {
				at[side] = s.value[side][i]
				break
			}
		}
	}
	return at[0], at[1], true
}

// describe returns the statistic of changes, and sorts them. Student's t widens the interval of the resamples, since
// there are few stretches.
func (s *pairSeries) describe(statistic string, at [2]float64, changes []float64, stretches int) PairedStat {
	p := PairedStat{Metric: s.name, Statistic: statistic, Pairs: s.pairs, A: at[0], B: at[1], Change: at[1] - at[0], Verdict: TooFew}
	if len(changes) == 0 || s.pairs < fewestForMean {
		return p
	}
	slices.Sort(changes)
	last := float64(len(changes) - 1)
	wider := distuv.StudentsT{Sigma: 1, Nu: float64(stretches - 1)}.Quantile(0.975) / distuv.UnitNormal.Quantile(0.975)
	low := p.Change + float64(wider*(changes[int(math.Round(0.025*last))]-p.Change))
	high := p.Change + float64(wider*(changes[int(math.Round(0.975*last))]-p.Change))
	p.Low, p.High = &low, &high
	p.judge()
	return p
}

// judge derives the verdict from the interval.
func (p *PairedStat) judge() {
	switch p.Verdict = Tie; {
	case *p.High < 0:
		p.Verdict = Win
	case *p.Low > 0:
		p.Verdict = Lose
	}
}

// span is a range of neighbouring pairs: from is included, to is excluded.
type span struct{ from, to int }

// stretches draws stretches with as many pairs as there are in total. A stretch continues at the first pair after the
// last.
type stretches struct {
	n, length int
	rand      *rand.Rand
	spans     []span
	times     []int32 // how often each pair is drawn
}

func newStretches(n, length int) *stretches {
	return &stretches{n: n, length: length, rand: sim.NewRand(pairedSeed, "paired"), times: make([]int32, n)}
}

// wholeOf returns all pairs, each once.
func wholeOf(n int) *stretches {
	return &stretches{n: n, spans: []span{{0, n}}, times: slices.Repeat([]int32{1}, n)}
}

// next draws the next resample.
func (d *stretches) next() {
	clear(d.times)
	d.spans = d.spans[:0]
	for left := d.n; left > 0; left -= d.length {
		from := d.rand.IntN(d.n)
		to := from + min(d.length, left)
		d.add(span{from, min(to, d.n)})
		if to > d.n {
			d.add(span{0, to - d.n})
		}
	}
}

func (d *stretches) add(p span) {
	d.spans = append(d.spans, p)
	for i := p.from; i < p.to; i++ {
		d.times[i]++
	}
}
