package autoscale

import (
	"fmt"
	"math"
)

// hpa scales as Kubernetes' HorizontalPodAutoscaler does (docs/autoscaling.md, HPA).
type hpa struct {
	governor
	reason
}

// Want returns the number of workers: what metrics want, held back by the windows, and
// brought near by the policies.
func (h *hpa) Want(s *Signals) int {
	h.why = "nothing has been read"
	n := s.Workers
	if s.Ready > 0 {
		n = 0
		for i, t := range h.c.Targets {
			if want := h.recommend(s, t); want > n || i == 0 {
				n, h.why = want, fmt.Sprintf("%s is %.4g a worker, target %.4g: %d", t.Metric, s.PerWorker(t.Metric), t.Value, want)
			}
		}
	}
	to, held := h.govern(s, n, h.c.Min)
	h.why += held
	return to
}

// recommend returns how many workers a metric wants: those that have it times the ratio of its
// mean to the target, rounded up. Workers that run and have told nothing yet count as on target
// to shrink and as idle to grow; those that do not run yet count as idle to grow.
func (h *hpa) recommend(s *Signals, t Target) int {
	ratio := s.PerWorker(t.Metric) / t.Value
	missing := min(s.Missing, max(s.Workers-s.Ready, 0))
	unready := max(s.Workers-s.Ready, 0) - missing
	if missing == 0 && (ratio < 1 || unready == 0) {
		if h.isNear(ratio) {
			return s.Workers
		}
		return roundUp(ratio * float64(s.Ready))
	}
	sum, n := s.Sum(t.Metric), s.Ready+missing
	if ratio < 1 {
		sum += float64(float64(missing) * t.Value)
	} else {
		n += unready
	}
	diluted := sum / float64(n) / t.Value
	if h.isNear(diluted) || (ratio < 1) != (diluted < 1) {
		return s.Workers
	}
	to := roundUp(diluted * float64(n))
	if (diluted < 1) == (to > s.Workers) {
		return s.Workers
	}
	return to
}

func (h *hpa) isNear(ratio float64) bool { return math.Abs(1-ratio) <= h.c.Tolerance }
