package policy

import (
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// fraction is the latest text of a number that is not an integer. Most numbers do not change between two decisions.
// Formatting a number takes ten times as long as copying its text.
type fraction struct {
	x    float64
	text [24]byte // as long as the longest text of a float64
	n    int      // length of the text; 0: none
}

// append appends x in the form of appendNumber.
func (f *fraction) append(to []byte, x float64) []byte {
	switch {
	case isWhole(x):
		return strconv.AppendInt(to, int64(x), 10)
	case f.n > 0 && f.x == x:
		return append(to, f.text[:f.n]...)
	}
	begin := len(to)
	to = appendNumber(to, x)
	f.x, f.n = x, copy(f.text[:], to[begin:])
	return to
}

// isWhole reports whether x is an integer that a float64 represents exactly.
func isWhole(x float64) bool {
	const exact = 1 << 53
	return x == math.Trunc(x) && math.Abs(x) <= exact
}

// appendBool appends 1 for true and 0 for false.
func appendBool(to []byte, x bool) []byte {
	if x {
		return append(to, '1')
	}
	return append(to, '0')
}

// appendNumber appends a number as JSON, null for NaN and infinities.
func appendNumber(to []byte, x float64) []byte {
	switch {
	case isWhole(x):
		return strconv.AppendInt(to, int64(x), 10)
	case math.IsNaN(x) || math.IsInf(x, 0):
		return append(to, "null"...)
	}
	return strconv.AppendFloat(to, x, 'g', -1, 64)
}

// parseWorker parses the id of a worker.
func parseWorker(text []byte) (w sim.WorkerID, ok bool) {
	if len(text) == 0 || len(text) > 9 {
		return 0, false
	}
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		w = 10*w + sim.WorkerID(b-'0')
	}
	return w, true
}
