package router

import "math"

// exp is e to the x. It is the same on every machine: math.Exp is not, since
// some architectures have one of their own that differs in the last digit.
func exp(x float64) float64 {
	const (
		log2e = 1.44269504088896338700e+00
		ln2Hi = 6.93147180369123816490e-01 // ln 2 to 32 bits
		ln2Lo = 1.90821492927058770002e-10 // and the rest
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
