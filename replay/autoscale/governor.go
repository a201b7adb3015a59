package autoscale

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/sim"
)

// governor holds back what a scaler wants, as Kubernetes' HorizontalPodAutoscaler does: by
// stabilization windows, policies, and the bounds (docs/autoscaling.md, HPA).
type governor struct {
	c      *Config
	wanted []step // what was wanted before it was held back, in order of time
	acts   []step // by how many workers the number has changed
}

// step is a number at an instant.
type step struct {
	at sim.Time
	n  int
}

// govern returns how many workers there are to be where n are wanted, at least that many, and in
// words what has held it back.
func (g *governor) govern(s *Signals, n, least int) (int, string) {
	if len(g.wanted) == 0 {
		g.wanted = append(g.wanted, step{s.Now, s.Workers})
	}
	steady := g.stabilize(s, n)
	limited := g.limitRate(s, steady)
	to := min(max(limited, least), g.c.Max)
	if to != s.Workers {
		g.acts = append(g.acts, step{s.Now, to - s.Workers})
	}
	why := ""
	if steady != n {
		why += fmt.Sprintf("; the window allows %d", steady)
	}
	if limited != steady {
		why += fmt.Sprintf("; policies allow %d", limited)
	}
	if to != limited {
		why += fmt.Sprintf("; bounds allow %d", to)
	}
	return to, why
}

// stabilize goes up to the least that was wanted in the one window, and down to the most that
// was wanted in the other.
func (g *governor) stabilize(s *Signals, n int) int {
	up, down := n, n
	kept := g.wanted[:0]
	for _, w := range g.wanted {
		age := s.Now - w.at
		if age < g.c.Up.Window {
			up = min(up, w.n)
		}
		if age < g.c.Down.Window {
			down = max(down, w.n)
		}
		if age < max(g.c.Up.Window, g.c.Down.Window) {
			kept = append(kept, w)
		}
	}
	g.wanted = append(kept, step{s.Now, n})
	return min(max(s.Workers, up), down)
}

// limitRate goes from the present number towards n as far as policies allow.
func (g *governor) limitRate(s *Signals, n int) int {
	switch {
	case n > s.Workers:
		return min(n, max(g.c.Up.limit(s, g.acts, 1), s.Workers))
	case n < s.Workers:
		return max(n, min(g.c.Down.limit(s, g.acts, -1), s.Workers))
	}
	return n
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

// roundUp rounds up, within what a cluster may have. What is whole but for the rounding of
// float64 counts as whole.
func roundUp(x float64) int { return int(math.Ceil(min(x, MostWorkers) - 1e-9)) }
