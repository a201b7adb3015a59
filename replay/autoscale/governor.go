package autoscale

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/sim"
)

// governor limits the decisions of a scaler like Kubernetes' HorizontalPodAutoscaler: by stabilization windows,
// policies and bounds (docs/autoscaling.md, HPA).
type governor struct {
	c      *Config
	wanted []step // requested numbers before windows and policies, in order of time
	ups    []step // increases of the number of workers
	downs  []step // decreases
}

// step is a number of workers at an instant.
type step struct {
	at sim.Time
	n  int
}

// defaultWindow is the stabilization window of HPA without scale_up and scale_down, in ms.
const defaultWindow sim.Time = 300_000

// bound returns the present number limited to least and max. bound reports whether the present number is outside
// these bounds, so that no metric is read.
func (g *governor) bound(s *Signals, least int) (int, bool) {
	g.begin(s)
	to := min(max(s.Workers, least), g.c.Max)
	g.note(s, to)
	return to, to != s.Workers
}

// begin records the number at the first tick as requested.
func (g *governor) begin(s *Signals) {
	if len(g.wanted) == 0 {
		g.wanted = append(g.wanted, step{s.Now, s.Workers})
	}
}

// govern returns the number of workers if n are requested, with the minimum least. govern also returns a text on the
// limits that apply.
func (g *governor) govern(s *Signals, n, least int) (int, string) {
	g.begin(s)
	var steady, limited int
	if g.c.hasBehavior() {
		steady = g.stabilize(s, n)
		limited = g.limitRate(s, steady)
	} else {
		steady = g.rememberMost(s, n)
		limited = min(steady, max(2*s.Workers, 4))
	}
	to := min(max(limited, least), g.c.Max)
	g.note(s, to)
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

// stabilize returns the present number, raised to the minimum of the window of increases and lowered to the maximum
// of the window of decreases.
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

// rememberMost returns the maximum of the requested numbers in the default window.
func (g *governor) rememberMost(s *Signals, n int) int {
	most := n
	kept := g.wanted[:0]
	for _, w := range g.wanted {
		if s.Now-w.at <= defaultWindow {
			most, kept = max(most, w.n), append(kept, w)
		}
	}
	g.wanted = append(kept, step{s.Now, n})
	return most
}

// note records a change of the number of workers. note reuses an entry that is older than every period of its
// direction.
func (g *governor) note(s *Signals, to int) {
	if to == s.Workers || !g.c.hasBehavior() {
		return
	}
	events, b, n := &g.ups, &g.c.Up, to-s.Workers
	if n < 0 {
		events, b, n = &g.downs, &g.c.Down, -n
	}
	longest := sim.Time(0)
	for i := range b.Policies {
		longest = max(longest, b.Policies[i].Period)
	}
	for i := len(*events) - 1; i >= 0; i-- {
		if s.Now-(*events)[i].at > longest {
			(*events)[i] = step{s.Now, n}
			return
		}
	}
	*events = append(*events, step{s.Now, n})
}

// limitRate changes the present number towards n as far as policies allow.
func (g *governor) limitRate(s *Signals, n int) int {
	switch {
	case n > s.Workers:
		return min(n, max(g.limit(s, &g.c.Up, 1), s.Workers))
	case n < s.Workers:
		return max(n, min(g.limit(s, &g.c.Down, -1), s.Workers))
	}
	return n
}

// limit returns the number of workers that the policies allow: sign 1 for an increase, -1 for a decrease.
func (g *governor) limit(s *Signals, b *Behavior, sign int) int {
	switch {
	case b.Off:
		return s.Workers
	case len(b.Policies) == 0:
		return sign * math.MaxInt32
	}
	far := 0
	for i := range b.Policies {
		to := g.reach(s, &b.Policies[i], sign)
		if i == 0 || (sign*to > sign*far) != b.Least {
			far = to
		}
	}
	return far
}

// reach returns the number of workers that a policy allows now. The result is the number at the start of the policy's
// period plus or minus the policy's step.
func (g *governor) reach(s *Signals, p *Policy, sign int) int {
	begin := s.Workers
	for _, e := range g.ups {
		if s.Now-e.at < p.Period {
			begin -= e.n
		}
	}
	for _, e := range g.downs {
		if s.Now-e.at < p.Period {
			begin += e.n
		}
	}
	if p.Workers > 0 {
		return begin + sign*p.Workers
	}
	to := float64(begin) * (1 + float64(sign)*p.Percent/100)
	if sign > 0 {
		return roundCeil(to)
	}
	return int(to)
}

// roundUp rounds up, up to MostWorkers. roundUp ignores rounding errors of float64.
func roundUp(x float64) int { return int(math.Ceil(min(x, MostWorkers) - 1e-9)) }
