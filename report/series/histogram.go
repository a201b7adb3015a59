package series

import (
	"math"

	"github.com/replay-llm/replay/scheduler"
)

// perOctave is the number of bins from a value to its double: each is 2.2 % wide.
const perOctave = 32

// lowest is the start of the first bin, as a power of 2.
const lowest = -20

// Histogram counts values in bins of equal ratio. Values up to 2^-20 are in the first bin.
type Histogram struct {
	Counts []int // by bin
	Total  int
}

// Add counts a value n times.
func (h *Histogram) Add(v float64, n int) {
	if n == 0 {
		return
	}
	i := binOf(v)
	for len(h.Counts) <= i {
		h.Counts = append(h.Counts, 0)
	}
	h.Counts[i] += n
	h.Total += n
}

// binTable has one byte for each 256th of the range between two powers of two: the bin that contains this part,
// counted from '0', or '~' if two bins share the part.
const binTable = "00000~11111~22222~33333~44444~55555~66666~777777~888888~99999~::" +
	"::::~;;;;;;~<<<<<<<~======~>>>>>>>~???????~@@@@@@~AAAAAAAA~BBBBB" +
	"BB~CCCCCCC~DDDDDDDD~EEEEEEEE~FFFFFFFF~GGGGGGGG~HHHHHHHH~IIIIIIII" +
	"I~JJJJJJJJJ~KKKKKKKKK~LLLLLLLLL~MMMMMMMMMM~NNNNNNNNNN~OOOOOOOOO~"

// memo has the mantissas at which the bins between two powers of two begin, and the mantissa of the next power.
var memo = func() (edges [perOctave + 1]int64) {
	for i := range edges {
		edges[i] = int64(math.Ldexp(math.Exp2(float64(i)/perOctave)-1, 52))
	}
	return edges
}()

// edgeWidth is the distance from an edge, in units of the mantissa, within which the logarithm decides.
const edgeWidth = 1 << 12

// addRun counts the gaps of a run with Ends. The passes of a run take similar times, so that most gaps are in the same
// part of the table as the gap before, and are counted with it.
func (h *Histogram) addRun(p *scheduler.Pass) {
	first, part, count := 0.0, uint64(0), 0
	for i := range p.Ends {
		gap := float64(p.GapOf(i))
		if at := math.Float64bits(gap) >> 44; count == 0 || at != part || binTable[at&0xff] == '~' {
			h.Add(first, count*p.Decoding)
			first, part, count = gap, at, 0
		}
		count++
	}
	h.Add(first, count*p.Decoding)
}

// binOf returns the bin of a value. binOf computes a logarithm only near the edge of a bin.
func binOf(v float64) int {
	bits := math.Float64bits(v)
	octave := int(bits>>52) - 1023 - lowest // of a value that is finite and > 0
	if octave >= 0 && octave < 1024 {
		cell := bits >> 44 & 0xff
		if part := binTable[cell]; part != '~' {
			return octave*perOctave + int(part-'0')
		}
		part := int(binTable[cell-1]-'0') + 1
		switch past := int64(bits&(1<<52-1)) - memo[part]; {
		case past > edgeWidth:
			return octave*perOctave + part
		case past < -edgeWidth:
			return octave*perOctave + part - 1
		}
	}
	if v > 0 {
		return max(0, int(math.Floor((math.Log2(v)-lowest)*perOctave)))
	}
	return 0
}

// binMiddle returns the value that represents bin i.
func binMiddle(i int) float64 { return math.Exp2((float64(i)+0.5)/perOctave + lowest) }

// Quantile returns the value below which a share q of all values lies, with an error of at most 1.1 %; 0 without
// values.
func (h *Histogram) Quantile(q float64) float64 {
	rank, seen := q*float64(h.Total), 0
	for i, n := range h.Counts {
		seen += n
		if n > 0 && float64(seen) >= rank {
			return binMiddle(i)
		}
	}
	return 0
}

// Edge returns the start of bin i.
func Edge(i int) float64 { return math.Exp2(float64(i)/perOctave + lowest) }
