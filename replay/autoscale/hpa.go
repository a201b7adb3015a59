package autoscale

import (
	"fmt"
	"math"
	"slices"
)

// hpa scales like the controller of Kubernetes' HorizontalPodAutoscaler, release 1.37 (docs/autoscaling.md, HPA).
type hpa struct {
	governor
	reason
	slept bool // the latest change was to zero workers
}

// Want returns the number of workers: the maximum over the metrics, limited by windows and policies.
func (h *hpa) Want(s *Signals) int {
	to := h.decide(s)
	if to != s.Workers {
		h.slept = to == 0
	}
	return to
}

// decide is Want, but does not set slept.
func (h *hpa) decide(s *Signals) int {
	h.begin(s)
	if s.Workers == 0 && !h.slept {
		h.why = "another hand took all workers away, which disables it"
		return 0
	}
	if to, ok := h.bound(s, h.c.Min); ok && s.Workers > 0 {
		h.why = fmt.Sprintf("%d workers are outside %d to %d", s.Workers, h.c.Min, h.c.Max)
		return to
	}
	n, known := 0, 0
	h.why = "nothing has been read"
	for _, t := range h.c.Targets {
		want, ok := h.recommend(s, t)
		if !ok {
			continue
		}
		if known++; n == 0 || want > n {
			n, h.why = want, fmt.Sprintf("%s is %.4g a worker, target %.4g: %d", t.Metric, perWorker(s, t.Metric), t.Value, want)
		}
	}
	if known == 0 || known < len(h.c.Targets) && n < s.Workers {
		return s.Workers
	}
	to, held := h.govern(s, n, h.c.Min)
	h.why += held
	return to
}

// recommend returns the number of workers for a metric. ok is false if the metric is unknown.
func (h *hpa) recommend(s *Signals, t Target) (n int, ok bool) {
	if s.At == 0 {
		return 0, false
	}
	if t.Metric.isOfPool() {
		return h.c.averageValue(scaleToMilli(s.Sum(t.Metric)), roundTarget(t.Value), s.Workers), true
	}
	return h.podsMetric(s, t)
}

// podsMetric returns the number of workers at which the mean of a metric of single workers equals the target. Workers
// that run and are not in the scrape count as on target when shrinking, and as idle when growing. Workers that do not
// run yet count as idle when growing. Values and their mean are integers in thousandths.
func (h *hpa) podsMetric(s *Signals, t Target) (int, bool) {
	count, sum, target := len(s.Each), int64(0), roundTarget(t.Value)
	if count == 0 {
		return 0, false
	}
	for i := range s.Each {
		sum += scaleToMilli(s.Each[i].value(t.Metric))
	}
	ratio := func() float64 { return float64(sum/int64(count)) / float64(target) }
	first := ratio()
	unready := max(s.Workers-s.Ready-s.Missing, 0)
	grows := unready > 0 && first > 1
	if !grows && s.Missing == 0 {
		if h.c.isNear(first) {
			return s.Workers, true
		}
		return roundCeil(first * float64(s.Ready)), true
	}
	switch {
	case first < 1:
		count, sum = count+s.Missing, sum+int64(s.Missing)*target
	case first > 1:
		count += s.Missing
	}
	if grows {
		count += unready
	}
	second := ratio()
	if h.c.isNear(second) || first < 1 && second > 1 || first > 1 && second < 1 {
		return s.Workers, true
	}
	n := roundCeil(second * float64(count))
	if second < 1 && n > s.Workers || second > 1 && n < s.Workers {
		return s.Workers, true
	}
	return n, true
}

// averageValue returns the number of workers at which a metric of the pool, divided by the number, equals the target.
// Metric and target are in thousandths.
func (c *Config) averageValue(usage, target int64, workers int) int {
	if c.isNear(float64(usage) / (float64(target) * float64(workers))) {
		return workers
	}
	return roundCeil(float64(usage) / float64(target))
}

// perWorker returns a metric per worker, as averageValue and podsMetric compare it with the target.
func perWorker(s *Signals, m Metric) float64 {
	if m.isOfPool() {
		return s.Sum(m) / float64(max(s.Workers, 1))
	}
	return s.PerWorker(m)
}

// isOfPool reports whether the metric is a single number of the pool.
func (m Metric) isOfPool() bool { return m == Held || slices.Contains(Rates(), m) }

// isNear reports whether a ratio of a metric to its target is within the tolerance.
func (c *Config) isNear(ratio float64) bool {
	return 1-c.tolerance(&c.Down) <= ratio && ratio <= 1+c.tolerance(&c.Up)
}

// tolerance returns the tolerance of a direction.
func (c *Config) tolerance(b *Behavior) float64 {
	if b.Tolerance != nil {
		return *b.Tolerance
	}
	return c.Tolerance
}

// scaleToMilli returns a value in thousandths, rounded down, like adapters of metrics.
func scaleToMilli(x float64) int64 { return int64(min(x, math.MaxInt32) * 1000) }

// roundTarget returns a target in thousandths, rounded up, at least 1.
func roundTarget(x float64) int64 {
	return max(int64(math.Ceil(math.Round(min(x, math.MaxInt32)*1e6)/1e3)), 1)
}

// roundCeil rounds up, up to MostWorkers.
func roundCeil(x float64) int { return int(math.Ceil(min(x, MostWorkers))) }
