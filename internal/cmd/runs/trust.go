package runs

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// trust watches how much of a replay lies where the profiles of its pass times
// can be trusted.
type trust struct {
	harness.NoObserver
	of [3][]*calibrate.Coverage // by role and worker, the last for all further ones; nil if there is no such profile
}

// readProfiles reads the profiles that the replay names.
func (t *trust) readProfiles(spec *replay.Spec) error {
	for i := range spec.Pools {
		pool := &spec.Pools[i]
		kinds := pool.Kinds()
		if later, ok := spec.LaterKind(); ok {
			kinds = append(slices.Clone(kinds), later)
		}
		for _, k := range kinds {
			c, err := coverageOf(&k.Engine)
			if err != nil {
				return err
			}
			if k.Name == "" {
				k.Count = 1
			}
			t.of[pool.Role] = append(t.of[pool.Role], slices.Repeat([]*calibrate.Coverage{c}, k.Count)...)
		}
	}
	return nil
}

// coverageOf reads the profile of an engine; nil if it does not have the range in which it can be trusted.
func coverageOf(a *engineargs.Args) (*calibrate.Coverage, error) {
	if !a.PassTimes.HoldsProfile() {
		return nil, nil
	}
	p, err := a.PassTimes.Profile()
	if err != nil || p.Trusted == nil {
		return nil, err
	}
	return calibrate.NewCoverage(*p.Trusted, a.BlockTokens), nil
}

// knows reports whether some profile has the range in which it can be trusted.
func (t *trust) knows() bool {
	known := func(c *calibrate.Coverage) bool { return c != nil }
	return slices.ContainsFunc(slices.Concat(t.of[:]...), known)
}

// mostOutside is the share of a replay's passes, by time, that may lie outside a
// profile's range without a warning.
const mostOutside = 0.05

// warnOutside prints, when the replay is over, how much of it a profile knows
// nothing about.
func (t *trust) warnOutside(s cli.Streams) {
	seen := map[*calibrate.Coverage]bool{nil: true}
	for _, c := range slices.Concat(t.of[:]...) {
		if seen[c] {
			continue
		}
		seen[c] = true
		if share, name := c.Outside(); share > mostOutside {
			s.Warn(fmt.Sprintf("%.0f %% of the passes, by time, are outside the range of the timing profile, first of all in %s", 100*share, name))
		}
	}
}

// Pass counts a pass.
func (t *trust) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	all := t.of[stage]
	if len(all) == 0 {
		return
	}
	if c := all[min(int(w), len(all)-1)]; c != nil {
		c.Pass(p)
	}
}

// observers are shown a run one after the other.
type observers []harness.Observer

// growAll makes room for this number of requests in the observers that remember them.
func (all observers) growAll(requests int) {
	for _, o := range all {
		if o, ok := o.(interface{ Grow(requests int) }); ok {
			o.Grow(requests)
		}
	}
}

func (all observers) Arrived(q *sim.Request, at sim.Time) {
	for _, o := range all {
		o.Arrived(q, at)
	}
}

func (all observers) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	for _, o := range all {
		o.Routed(stage, at, p)
	}
}

func (all observers) Handoff(id sim.RequestID, from, to sim.Time) {
	for _, o := range all {
		o.Handoff(id, from, to)
	}
}

func (all observers) Left(d *harness.Departure) {
	for _, o := range all {
		o.Left(d)
	}
}

func (all observers) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	for _, o := range all {
		o.Pass(stage, w, p)
	}
}
