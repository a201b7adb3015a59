package calibrate

import "sync/atomic"

// steps counts the steps of a calibration.
type steps struct {
	report func(done, total int)
	done   atomic.Int64
	total  int
}

// newSteps returns a count of total steps; report may be nil.
func newSteps(report func(done, total int), total int) *steps {
	return &steps{report: report, total: total}
}

// end counts a step.
func (s *steps) end() {
	if done := s.done.Add(1); s.report != nil {
		s.report(int(done), s.total)
	}
}
