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

// trust measures the share of a replay for which the timing profiles were measured.
type trust struct {
	harness.NoObserver
	of [3][]*calibrate.Coverage // by role and worker, the last entry for all later workers; nil: no profile with a measured range
}

// readProfiles reads the timing profiles of the replay.
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

// coverageOf reads the timing profile of an engine. coverageOf returns nil if the profile does not have its measured
// range.
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

// knows reports whether at least one profile has its measured range.
func (t *trust) knows() bool {
	known := func(c *calibrate.Coverage) bool { return c != nil }
	return slices.ContainsFunc(slices.Concat(t.of[:]...), known)
}

// mostOutside is the share of pass time outside of a profile's range above which a warning is printed.
const mostOutside = 0.05

// warnOutside prints a warning after the replay if too many passes were outside of a profile's range.
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

// observers are observers that are called in order.
type observers []harness.Observer

// growAll reserves memory for the given number of requests in all observers.
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
