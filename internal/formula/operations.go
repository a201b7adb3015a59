package formula

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// operation is the operation of a step.
type operation uint8

const (
	negate operation = iota
	not
	abs
	floor
	ceil
	round
	add
	subtract
	multiply
	divide
	modulo
	less
	atMost
	equal
	unequal
	and
	or
	lesser
	greater
	lot
	choose
	least // least and all later operations read the values of all candidates
	most
	total
	mean
)

// operands are the columns that an operation reads, with a mask for each. The mask is applied to the index of a
// candidate. The mask is 0 for a column with one value.
type operands struct {
	a, b, c []float64
	each    struct{ a, b, c int }
}

// applyStep evaluates an operation and writes the results to d.
func applyStep(do operation, d []float64, o *operands) {
	switch {
	case do >= least:
		d[0] = summarizeAll(do, o.a)
	case do >= less && do <= or:
		comparePairs(do, d, o)
	case do >= lesser:
		mixValues(do, d, o)
	case do >= add:
		calculatePairs(do, d, o)
	default:
		changeValues(do, d, o)
	}
}

// changeValues evaluates an operation with one operand.
func changeValues(do operation, d []float64, o *operands) {
	a := o.a
	switch do {
	case negate:
		for i := range d {
			d[i] = 0 - a[i]
		}
	case not:
		for i := range d {
			d[i] = 1 - a[i]
		}
	case abs:
		for i := range d {
			d[i] = math.Abs(a[i])
		}
	case floor:
		for i := range d {
			d[i] = math.Floor(a[i])
		}
	case ceil:
		for i := range d {
			d[i] = math.Ceil(a[i])
		}
	case round:
		for i := range d {
			d[i] = math.Round(a[i])
		}
	}
}

// calculatePairs evaluates an arithmetic operation on two numbers. Each result is rounded to float64 immediately.
func calculatePairs(do operation, d []float64, o *operands) {
	a, b, ma, mb := o.a, o.b, o.each.a, o.each.b
	switch do {
	case add:
		for i := range d {
			d[i] = a[i&ma] + b[i&mb]
		}
	case subtract:
		for i := range d {
			d[i] = a[i&ma] - b[i&mb]
		}
	case multiply:
		for i := range d {
			d[i] = float64(a[i&ma] * b[i&mb])
		}
	case divide:
		for i := range d {
			d[i] = a[i&ma] / b[i&mb]
		}
	case modulo:
		for i := range d {
			d[i] = math.Mod(a[i&ma], b[i&mb])
		}
	}
}

// comparePairs evaluates an operation on two values with the result true or false.
func comparePairs(do operation, d []float64, o *operands) {
	a, b, ma, mb := o.a, o.b, o.each.a, o.each.b
	switch do {
	case less:
		for i := range d {
			d[i] = asTruth(a[i&ma] < b[i&mb])
		}
	case atMost:
		for i := range d {
			d[i] = asTruth(a[i&ma] <= b[i&mb])
		}
	case equal:
		for i := range d {
			d[i] = asTruth(a[i&ma] == b[i&mb])
		}
	case unequal:
		for i := range d {
			d[i] = asTruth(a[i&ma] != b[i&mb])
		}
	case and:
		for i := range d {
			d[i] = a[i&ma] * b[i&mb]
		}
	case or:
		for i := range d {
			d[i] = max(a[i&ma], b[i&mb])
		}
	}
}

func asTruth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// mixValues evaluates lesser, greater, lot and choose.
func mixValues(do operation, d []float64, o *operands) {
	a, b, c, ma, mb, mc := o.a, o.b, o.c, o.each.a, o.each.b, o.each.c
	switch do {
	case lesser:
		for i := range d {
			d[i] = min(a[i&ma], b[i&mb])
		}
	case greater:
		for i := range d {
			d[i] = max(a[i&ma], b[i&mb])
		}
	case lot:
		for i := range d {
			d[i] = drawLot(a[i&ma], b[i&mb])
		}
	case choose:
		for i := range d {
			if a[i&ma] != 0 {
				d[i] = b[i&mb]
			} else {
				d[i] = c[i&mc]
			}
		}
	}
}

// summarizeAll evaluates an operation over the values of all candidates. There must be at least one candidate.
func summarizeAll(do operation, a []float64) float64 {
	x := a[0]
	switch do {
	case least:
		for _, y := range a[1:] {
			x = min(x, y)
		}
	case most:
		for _, y := range a[1:] {
			x = max(x, y)
		}
	case total, mean:
		for _, y := range a[1:] {
			x += y
		}
		if do == mean {
			x /= float64(len(a))
		}
	}
	return x
}

// drawLot returns a pseudo-random number from 0 to 1 that depends only on a and b.
func drawLot(a, b float64) float64 {
	return float64(sim.MixBits(sim.MixBits(bitsOf(b))^bitsOf(a))>>11) / (1 << 53)
}

// bitsOf returns the bits of an int64 for a whole number up to 2^53, and the bits of a float64 for any other number.
func bitsOf(x float64) uint64 {
	if x == math.Trunc(x) && math.Abs(x) <= 1<<53 {
		return uint64(int64(x))
	}
	return math.Float64bits(x)
}
