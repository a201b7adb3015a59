package collector

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// compactAt is the length at which the list of gaps is first searched for equal
// values. It bounds the memory of long replays, in which equal gaps abound.
const compactAt = 1 << 17

// gaps are inter-token latencies, each with the number of times it occurred.
//
// All requests that decode in the same two successive passes have the same gap,
// so there are far fewer entries than tokens. The values are >= 0 and kept as
// their bits, whose order is the order of the values.
type gaps struct {
	bits   []uint64
	counts []int64 // as long as bits, each > 0
	limit  int     // length at which to compact next; 0: compactAt
}

// add notes n latencies of one gap; a negative gap counts as 0.
func (g *gaps) add(gap sim.Time, n int64) {
	if n == 0 {
		return
	}
	bits := math.Float64bits(float64(gap.Max0()))
	if last := len(g.bits) - 1; last >= 0 && g.bits[last] == bits {
		g.counts[last] += n
		return
	}
	if len(g.bits) >= max(g.limit, compactAt) {
		g.compact()
		g.limit = 2 * len(g.bits)
	}
	g.bits = append(g.bits, bits)
	g.counts = append(g.counts, n)
}

// compact sorts the list and joins equal gaps.
func (g *gaps) compact() {
	if slices.IsSorted(g.bits) {
		return
	}
	g.bits, g.counts = radixSort(g.bits, g.counts)
	end := 0
	for i := 1; i < len(g.bits); i++ {
		if g.bits[i] == g.bits[end] {
			g.counts[end] += g.counts[i]
			continue
		}
		end++
		g.bits[end], g.counts[end] = g.bits[i], g.counts[i]
	}
	g.bits, g.counts = g.bits[:end+1], g.counts[:end+1]
}

// latencies is the distribution of the gaps, in ms.
func (g *gaps) latencies() Distribution {
	g.compact()
	values := make([]float64, len(g.bits))
	for i, b := range g.bits {
		values[i] = math.Float64frombits(b)
	}
	return weightedDistribution(values, g.counts)
}

// rates is the distribution of tokens per second and user, 1000/gap for every
// gap that is not 0.
func (g *gaps) rates() Distribution {
	g.compact()
	values := make([]float64, 0, len(g.bits))
	counts := make([]int64, 0, len(g.bits))
	for i := len(g.bits) - 1; i >= 0 && g.bits[i] != 0; i-- {
		values = append(values, 1000.0/math.Float64frombits(g.bits[i]))
		counts = append(counts, g.counts[i])
	}
	return weightedDistribution(values, counts)
}
