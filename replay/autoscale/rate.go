package autoscale

import "fmt"

// Load is the capacity of a worker.
type Load struct {
	Metric    Metric  `yaml:"metric" is:"metric" of:"rate predict"`             // a rate metric
	PerWorker float64 `json:",omitempty" yaml:"per_worker" of:"rate predict"`   // value of the metric per worker
	InFlight  float64 `json:",omitempty" yaml:"in_flight" of:"predict perfect"` // requests per worker, if PerWorker is measured
	Headroom  float64 `json:",omitempty" yaml:"headroom" of:"rate predict"`     // reserve, as a share of the load
}

// workersFor returns the number of workers for a load.
func (l *Load) workersFor(load, perWorker float64) int {
	return roundUp(max(load, 0) * (1 + l.Headroom) / perWorker)
}

// rate divides a rate by the capacity of a worker (docs/autoscaling.md, Rate).
type rate struct {
	governor
	reason
}

// Want returns the number of workers.
func (r *rate) Want(s *Signals) int {
	if s.At == 0 {
		r.why = "nothing has been read"
		return s.Workers
	}
	l := r.c.Load
	n := l.workersFor(s.Sum(l.Metric), l.PerWorker)
	to, held := r.govern(s, n, r.c.Min)
	r.why = fmt.Sprintf("%s is %.4g, a worker takes %.4g: %d%s", l.Metric, s.Sum(l.Metric), l.PerWorker, n, held)
	return to
}
