package autoscale

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// hpa scales as Kubernetes' HorizontalPodAutoscaler does (docs/autoscaling.md, HPA).
type hpa struct {
	c      *Config
	wanted []step // what metrics alone have wanted, in order of time
	acts   []step // by how many workers the number has changed
}

// step is a number at an instant.
type step struct {
	at sim.Time
	n  int
}

// Want returns the number of workers: what metrics want, held back by the windows, and
// brought near by the policies.
func (h *hpa) Want(s *Signals) int {
	if len(h.wanted) == 0 {
		h.wanted = append(h.wanted, step{s.Now, s.Workers})
	}
	n := s.Workers
	if s.Ready > 0 {
		n = 0
		for _, t := range h.c.Targets {
			n = max(n, h.recommend(s, t))
		}
	}
	n = h.limitRate(s, h.stabilize(s, n))
	if n != s.Workers {
		h.acts = append(h.acts, step{s.Now, n - s.Workers})
	}
	return n
}

// recommend returns how many workers a metric wants: the ready ones times its ratio to the
// target, rounded up. To grow it counts those that are starting as idle ones.
func (h *hpa) recommend(s *Signals, t Target) int {
	ratio := s.PerWorker(t.Metric) / t.Value
	if h.isNear(ratio) {
		return s.Workers
	}
	starting := s.Workers - s.Ready
	if ratio < 1 || starting <= 0 {
		return roundUp(ratio * float64(s.Ready))
	}
	diluted := s.Sum(t.Metric) / float64(s.Workers) / t.Value
	if diluted < 1 || h.isNear(diluted) {
		return s.Workers
	}
	return max(roundUp(diluted*float64(s.Workers)), s.Workers)
}

func (h *hpa) isNear(ratio float64) bool { return math.Abs(1-ratio) <= h.c.Tolerance }

// roundUp rounds up, within what a cluster may have. What is whole but for the rounding of
// float64 counts as whole.
func roundUp(x float64) int { return int(math.Ceil(min(x, MostWorkers) - 1e-9)) }

// stabilize goes up to the least that was wanted in the one window, and down to the most that
// was wanted in the other.
func (h *hpa) stabilize(s *Signals, n int) int {
	up, down := n, n
	kept := h.wanted[:0]
	for _, w := range h.wanted {
		age := s.Now - w.at
		if age < h.c.Up.Window {
			up = min(up, w.n)
		}
		if age < h.c.Down.Window {
			down = max(down, w.n)
		}
		if age < max(h.c.Up.Window, h.c.Down.Window) {
			kept = append(kept, w)
		}
	}
	h.wanted = append(kept, step{s.Now, n})
	return min(max(s.Workers, up), down)
}

// limitRate goes from the present number towards n as far as policies and bounds allow.
func (h *hpa) limitRate(s *Signals, n int) int {
	switch {
	case n > s.Workers:
		return min(n, max(h.c.Up.limit(s, h.acts, 1), s.Workers), h.c.Max)
	case n < s.Workers:
		return max(n, min(h.c.Down.limit(s, h.acts, -1), s.Workers), h.c.Min)
	}
	return min(max(n, h.c.Min), h.c.Max)
}

// limit returns how far the policies allow to go: up with sign 1, down with -1.
func (b *Behavior) limit(s *Signals, acts []step, sign int) int {
	switch {
	case b.Off:
		return s.Workers
	case len(b.Policies) == 0:
		return sign * math.MaxInt32
	}
	far := 0
	for i := range b.Policies {
		to := b.Policies[i].reach(s, acts, sign)
		if i == 0 || (sign*to > sign*far) != b.Least {
			far = to
		}
	}
	return far
}

// reach returns the number of workers that a policy allows now: so many beside those at the
// begin of its period.
func (p *Policy) reach(s *Signals, acts []step, sign int) int {
	begin := s.Workers
	for i := len(acts) - 1; i >= 0 && s.Now-acts[i].at < p.Period; i-- {
		begin -= acts[i].n
	}
	if p.Workers > 0 {
		return begin + sign*p.Workers
	}
	to := float64(begin) * (1 + float64(sign)*p.Percent/100)
	if sign > 0 {
		return roundUp(to)
	}
	return int(to)
}
