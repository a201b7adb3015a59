package plans

import (
	"context"
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/engines"
)

// survival is the value of --survive: the number of workers that may fail, or a zone.
type survival struct {
	text    string
	workers int // 0: a zone, if text is not ""
}

func (s *survival) String() string { return s.text }
func (s *survival) Type() string   { return "losses" }

// Set reads a number of workers, or "zone".
func (s *survival) Set(text string) error {
	n, err := strconv.Atoi(text)
	if text != "zone" && (err != nil || n < 1 || n > mostGone) {
		return fmt.Errorf("must be 1 to %d workers, or zone", mostGone)
	}
	s.text, s.workers = text, n
	return nil
}

// mostGone is the maximum number of workers that fail at once, since the number of cases grows fast.
const mostGone = 8

// describeSurvival returns the failures that the cluster survives, in words.
func (f *planFlags) describeSurvival() string {
	switch {
	case f.survive.text == "":
		return ""
	case f.survive.workers == 0:
		return fmt.Sprintf(" with any one of %d zones gone", f.zones)
	case f.survive.workers == 1:
		return " with any one worker gone"
	}
	return fmt.Sprintf(" with any %d workers gone", f.survive.workers)
}

// lossesOf returns the failures that a cluster must survive.
func (f *planFlags) lossesOf(t *engines.Topology) []engines.Loss {
	switch {
	case f.survive.text == "":
		return nil
	case f.survive.workers == 0:
		return t.ZoneGone(f.zones)
	case f.survive.workers > sizeOf(t):
		return []engines.Loss{{Name: fmt.Sprintf("%d workers, no worker is left", f.survive.workers)}}
	}
	return t.AnyGone(f.survive.workers)
}

func sizeOf(t *engines.Topology) int {
	n := 0
	for i := range t.Pools {
		n += t.Pools[i].Count
	}
	return n
}

// replaySurviving replays a point, and again with each loss of workers. The returned measure is the worst measure of
// these replays.
func (r *planRunner) replaySurviving(ctx context.Context, p plan.Point) (plan.Measure, error) {
	whole := r.choices[p.Variant].clusterOf(p.Shape)
	worst, err := r.replayPoint(ctx, p, whole)
	if err != nil {
		return worst, err
	}
	for _, loss := range r.flags.lossesOf(&whole) {
		if loss.Left == nil {
			worst.Met, worst.Missed = false, "gone: "+loss.Name
			return worst, nil
		}
		m, err := r.replayPoint(ctx, p, *loss.Left)
		if err != nil {
			return m, err
		}
		m.Requests += worst.Requests
		if replayed := m.Requests; !isWorse(&m, &worst) {
			worst.Requests = replayed
		} else {
			if worst = m; !m.Met {
				worst.Missed = "gone: " + loss.Name + ": " + m.Missed
			}
		}
	}
	return worst, nil
}

// isWorse reports whether measure a is worse than measure b of the same point: a misses, or comes nearer to a limit.
func isWorse(a, b *plan.Measure) bool {
	if a.Met != b.Met {
		return !a.Met
	}
	most := func(m *plan.Measure) float64 {
		excess := 0.0
		for i := range m.Values {
			excess = max(excess, m.Values[i].Excess())
		}
		return excess
	}
	return most(a) > most(b)
}
