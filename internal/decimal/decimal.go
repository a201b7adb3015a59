// Package decimal converts decimal numbers to float64 with the rounding of the reference implementation. The result
// is not always the nearest float64 (docs/rules/harness.md, "Rows of traces").
package decimal

import (
	"math"
	"strconv"
	"strings"
)

// Number is a decimal number: Digits·10^Exponent. Callers append its digits in the order in which they are written.
type Number struct {
	Digits   uint64 // the first digits, as many as fit in 64 bits
	Exponent int
	Negative bool
	Cut      bool // some digits did not fit in Digits

	full bool // further digits after the decimal point are ignored
}

// Whole appends a digit before the decimal point. If a digit does not fit, it and all later calls only increase the
// exponent.
func (n *Number) Whole(c byte) {
	if n.Cut || !canAppend(n.Digits, c) {
		n.Cut = true
		n.Exponent++
		return
	}
	n.Digits = n.Digits*10 + uint64(c-'0')
}

// Fraction appends a digit after the decimal point. If a digit does not fit, it and all later digits are dropped.
func (n *Number) Fraction(c byte) {
	if n.full || !canAppend(n.Digits, c) {
		n.full, n.Cut = true, true
		return
	}
	n.Digits = n.Digits*10 + uint64(c-'0')
	n.Exponent--
}

// Scale multiplies the number by 10^e.
func (n *Number) Scale(e int) {
	n.Exponent += min(max(e, -maxExponent), maxExponent)
}

// maxExponent bounds exponents, so that their sums do not overflow. A number with a smaller exponent is already 0 or
// infinite.
const maxExponent = 1 << 40

// canAppend reports whether digit c can be appended to digits without overflow.
func canAppend(digits uint64, c byte) bool {
	const most = math.MaxUint64 / 10
	return digits < most || digits == most && uint64(c-'0') <= math.MaxUint64%10
}

// Float returns n as a float64, with the rounding steps of the reference: the digits, the power of ten and their
// product are rounded separately. Float returns false if n is outside the range of float64.
func (n *Number) Float() (float64, bool) {
	f, e := float64(n.Digits), n.Exponent
	for e < -308 && f != 0 {
		f /= 1e308
		e += 308
	}
	switch {
	case f == 0:
	case e > 308:
		return 0, false
	case e > 0:
		f *= powerOfTen(e)
	case e < 0:
		f /= powerOfTen(-e)
	}
	if n.Negative {
		f = -f
	}
	return f, !math.IsInf(f, 0)
}

// Nearest reports whether Float returns the float64 nearest to n. Nearest reports true if Float rounds at most once.
func (n *Number) Nearest() bool {
	if n.Cut {
		return false
	}
	return n.Exponent == 0 || n.Digits < 1<<53 && -22 <= n.Exponent && n.Exponent <= 22
}

// powerOfTen returns the float64 nearest to 10^n for 0 <= n <= 308. The result of math.Pow10 may differ in the last
// bit.
func powerOfTen(n int) float64 {
	if n <= 22 {
		p := 1.0
		for range n {
			p *= 10 // exact up to 1e22
		}
		return p
	}
	f, err := strconv.ParseFloat("1e"+strconv.Itoa(n), 64)
	if err != nil {
		panic(err)
	}
	return f
}

// Parse returns Float of a JSON number. Parse returns false for all other JSON values.
func Parse(text string) (float64, bool) {
	var n Number
	text, n.Negative = strings.CutPrefix(text, "-")
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, false
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		n.Scale(readExponent(text[at+1:]))
		text = text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	for i := range len(whole) {
		n.Whole(whole[i])
	}
	for i := range len(fraction) {
		n.Fraction(fraction[i])
	}
	return n.Float()
}

// readExponent returns the value of an exponent, bounded by ±maxExponent.
func readExponent(text string) int {
	v, err := strconv.Atoi(text)
	if err == nil {
		return v
	}
	if strings.HasPrefix(text, "-") { // Atoi failed because the exponent has too many digits
		return -maxExponent
	}
	return maxExponent
}
