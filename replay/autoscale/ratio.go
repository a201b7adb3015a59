package autoscale

import "fmt"

// ratio requests a number of workers per requested worker of the other pool (docs/autoscaling.md, Prefill and decode
// workers).
type ratio struct {
	c *Config
	reason
}

// Want returns the number of workers, rounded up.
func (r *ratio) Want(s *Signals) int {
	n := roundUp(r.c.Ratio * float64(s.Other))
	r.why = fmt.Sprintf("%g for each of %d workers of the other pool: %d", r.c.Ratio, s.Other, n)
	return n
}
