package autoscale

import "fmt"

// Load is how much a worker can take.
type Load struct {
	Metric    Metric  `yaml:"metric" is:"metric" of:"rate predict"`             // a rate
	PerWorker float64 `json:",omitempty" yaml:"per_worker" of:"rate predict"`   // of the metric
	InFlight  float64 `json:",omitempty" yaml:"in_flight" of:"predict perfect"` // requests on a worker, where PerWorker is to be measured
	Headroom  float64 `json:",omitempty" yaml:"headroom" of:"rate predict"`     // spare room, as a share of the load
}

// workersFor returns how many workers a load needs.
func (l *Load) workersFor(load, perWorker float64) int {
	return roundUp(max(load, 0) * (1 + l.Headroom) / perWorker)
}

// rate divides a rate by what a worker can take (docs/autoscaling.md, Rate).
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
