package collector

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// compactAt is the length at which equal gaps of the list are first joined. compactAt bounds the memory of long
// replays, which have many equal gaps, and keeps the list in a processor's cache.
const compactAt = 1 << 14

// gaps is inter-token latencies in ms, each with its number of occurrences.
//
// All requests that decode in the same two successive passes have the same gap, so there are far fewer entries than
// tokens. The values are >= 0, so their bits sort in the order of the values.
type gaps struct {
	weighted
	sorted int      // length of the prefix that is sorted without equal values
	spare  weighted // scratch memory
	limit  int      // length at which equal values are joined next; 0: compactAt
	fold   *gapFold // where excess gaps are sketched; nil: all gaps are kept
}

// weighted is a list of values as their bits, each with a number of occurrences > 0.
type weighted struct {
	bits   []uint64
	counts []int64
}

// grow sets the capacity to n values without writing to the memory. slices.Grow would clear this memory.
func (w *weighted) grow(n int) {
	w.bits = append(make([]uint64, 0, n), w.bits...)
	w.counts = append(make([]int64, 0, n), w.counts...)
}

// prefix returns the first n values of the memory of w, which it reallocates if it is smaller.
func (w *weighted) prefix(n int) weighted {
	if cap(w.bits) < n || cap(w.counts) < n {
		*w = weighted{make([]uint64, n), make([]int64, n)}
	}
	return weighted{w.bits[:n], w.counts[:n]}
}

// gapsPerRequest is the initial capacity for gaps per request, which is more than most replays need. Unused capacity
// is never written, but a list that grows leaves its old memory behind.
const gapsPerRequest = 32

// add adds n latencies of one gap. A negative gap counts as 0.
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
		if g.fold != nil && len(g.bits) > mostGaps {
			g.fold.addGaps(g.weighted)
			g.bits, g.counts, g.sorted = g.bits[:0], g.counts[:0], 0
		}
		g.limit = 2 * len(g.bits)
	}
	if len(g.bits) == cap(g.bits) {
		g.grow(2 * len(g.bits))
	}
	g.bits = append(g.bits, bits)
	g.counts = append(g.counts, n)
}

// joinGaps reports whether all inter-token latencies are known in whole ns. If only some latencies are in whole ns,
// joinGaps moves all latencies to the gaps.
func (c *Collector) joinGaps() (whole bool) {
	if len(c.gaps.bits) == 0 || c.spans.n == 0 {
		return c.spans.n > 0
	}
	var buf [mostInSpan]int64
	c.spans.each(func(k *span, offs []byte) {
		for _, n := range k.nanos(offs, &buf) {
			c.gaps.add(sim.Time(nanosToMS(n)), int64(k.weight))
		}
	})
	c.spans.empty()
	return false
}

// compact sorts the list and joins equal values.
func (g *gaps) compact() {
	if g.sorted == len(g.bits) {
		return
	}
	if g.sorted > 0 {
		g.mergeTail()
	} else if !slices.IsSorted(g.bits) {
		g.weighted, g.spare = radixSort(g.weighted, g.spare.prefix(len(g.bits)))
	}
	end := 0
	for i := 1; i < len(g.bits); i++ {
		if g.bits[i] == g.bits[end] {
			g.counts[end] += g.counts[i]
			continue
		}
		end++
		g.bits[end], g.counts[end] = g.bits[i], g.counts[i]
	}
	g.sorted = end + 1
	g.bits, g.counts = g.bits[:g.sorted], g.counts[:g.sorted]
}

// Compact joins equal latencies to save memory. Compact changes no result.
func (c *Collector) Compact() {
	c.gaps.compact()
	c.gaps.spare = weighted{}
}

// mergeTail sorts the values after the sorted prefix and merges them with the prefix, from the last value to the
// first.
func (g *gaps) mergeTail() {
	n := len(g.bits) - g.sorted
	spare := g.spare.prefix(n)
	tail, _ := radixSort(weighted{g.bits[g.sorted:], g.counts[g.sorted:]}, spare)
	if &tail.bits[0] != &spare.bits[0] {
		copy(spare.bits, tail.bits)
		copy(spare.counts, tail.counts)
	}
	before, at := g.sorted-1, len(g.bits)-1
	for i := n - 1; i >= 0; at-- {
		from, k := &spare, &i
		if before >= 0 && g.bits[before] > spare.bits[i] {
			from, k = &g.weighted, &before
		}
		g.bits[at], g.counts[at] = from.bits[*k], from.counts[*k]
		*k--
	}
}

// latencies returns the distribution of the gaps, in ms.
func (g *gaps) latencies() Distribution {
	g.compact()
	return describeWeighted(g.weighted)
}

// rates returns the distribution of tokens per second and user, 1000/gap for every gap that is not 0.
func (g *gaps) rates() Distribution {
	g.compact()
	first := 0
	for first < len(g.bits) && g.bits[first] == 0 {
		first++
	}
	n := len(g.bits) - first
	rates := g.spare.prefix(n)
	for i := range n {
		last := len(g.bits) - 1 - i
		rates.bits[i] = math.Float64bits(1000.0 / math.Float64frombits(g.bits[last]))
		rates.counts[i] = g.counts[last]
	}
	return describeWeighted(rates)
}
