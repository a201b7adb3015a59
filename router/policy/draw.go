package policy

import (
	"math"
	"math/rand/v2"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// draw chooses a candidate at random, and cheaper candidates with a higher probability. Costs are scaled to the range
// 0 to 1 and weighted by exp(-cost/temperature).
type draw struct {
	temperature float64
	rand        *rand.Rand
	costs, odds []float64 // of the current request, by candidate
}

// chooseWorker draws one of the workers by d.costs.
func (d *draw) chooseWorker(workers []sim.WorkerID) router.Choice {
	d.odds = append(d.odds[:0], d.costs...)
	sum := weighCosts(d.costs, d.temperature, d.odds)
	best := pickIndex(d.odds, sum, d.rand.Float64())
	c := router.Choice{Worker: workers[best], Cost: d.costs[best], Second: router.None}
	second := -1
	for i, cost := range d.costs {
		if i != best && (second < 0 || cost < d.costs[second]) {
			second = i
		}
	}
	if second >= 0 {
		c.Second, c.SecondCost = workers[second], d.costs[second]
	}
	return c
}

// weighCosts sets p to the weight of each cost, and returns the sum of the weights.
func weighCosts(costs []float64, temperature float64, p []float64) (sum float64) {
	lo, hi := costs[0], costs[0]
	for _, c := range costs {
		lo, hi = min(lo, c), max(hi, c)
	}
	if lo == hi {
		for i := range p {
			p[i] = 1 / float64(len(p))
			sum += p[i]
		}
		return sum
	}
	scale := -1 / float64((hi-lo)*temperature)
	m := float64(lo * scale)
	for i, c := range costs {
		p[i] = expPortable(float64(c*scale) - m)
		sum += p[i]
	}
	return sum
}

// pickIndex returns the first index at which the running sum of p, divided by sum, reaches u. If no sum reaches u,
// pickIndex returns the last index.
func pickIndex(p []float64, sum, u float64) int {
	total := 0.0
	for i, x := range p {
		if total += x / sum; u <= total {
			return i
		}
	}
	return len(p) - 1
}

// expPortable returns e to the power of x. The result is the same on every machine. math.Exp is not, because some
// architectures have an implementation that differs in the last digit.
func expPortable(x float64) float64 {
	const (
		log2e = 1.44269504088896338700e+00
		ln2Hi = 6.93147180369123816490e-01 // ln 2 to 32 bits
		ln2Lo = 1.90821492927058770002e-10 // the remainder of ln 2
		terms = 14
	)
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < -745:
		return 0
	case x > 709:
		return math.Inf(1)
	}
	k := math.Round(float64(x * log2e))
	r := float64(x-float64(k*ln2Hi)) - float64(k*ln2Lo) // |r| <= ln 2 / 2
	sum := 1.0
	for n := terms; n > 0; n-- {
		sum = 1 + float64(float64(r*sum)/float64(n))
	}
	return math.Ldexp(sum, int(k))
}
