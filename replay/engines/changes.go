package engines

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// Change is a change of a cluster at an instant, made from outside. A zero field changes nothing.
type Change struct {
	At              sim.Time
	Workers, Decode int               `json:",omitempty"` // new sizes of the entry pool and of the decode pool
	Routing         policy.Choice     `record:"omitzero"` // new router policy
	Admission       *policy.Admission `json:",omitempty"` // new admission in front of the router
	Faults          *Faults           `json:",omitempty"` // faults from then on
	Speedup         float64           `json:",omitempty"` // of later arrivals, and of delays that start later
	WorkerSpeeds    [][]float64       `json:",omitempty"` // as in Topology, for passes that begin later
}

// Reroutes reports whether c changes the policy or the admission.
func (c *Change) Reroutes() bool { return c.Routing != nil || c.Admission != nil }

// With returns t after a change, without the change of sizes.
func (t Topology) With(c *Change) *Topology {
	if c.Routing != nil {
		t.Router = c.Routing
	}
	if c.Admission != nil {
		t.Admission = c.Admission
	}
	if c.Faults != nil {
		t.Faults = c.Faults
	}
	if c.WorkerSpeeds != nil {
		t.WorkerSpeeds = c.WorkerSpeeds
	}
	return &t
}

// MayFail reports whether there are faults from the start or after a change.
func (t *Topology) MayFail() bool {
	return t.Faults != nil || slices.ContainsFunc(t.Later(), func(c Change) bool { return c.Faults != nil })
}

// Later returns the planned changes of t, and the possible ones.
func (t *Topology) Later() []Change {
	return append(t.Changes[:len(t.Changes):len(t.Changes)], t.Possible...)
}

// InsertChange inserts c into changes in order of time, after changes at the same instant.
func InsertChange(all []Change, c Change) []Change {
	i := slices.IndexFunc(all, func(x Change) bool { return x.At > c.At })
	if i < 0 {
		i = len(all)
	}
	return slices.Insert(slices.Clone(all), i, c)
}

// CheckChanges returns an error for invalid changes, including possible ones.
func (t *Topology) CheckChanges() error {
	last := sim.Time(0)
	for i := range t.Changes {
		c := &t.Changes[i]
		if c.At < last {
			return fmt.Errorf("a change at %v ms after one at %v ms, must be in order of time", float64(c.At), float64(last))
		}
		last = c.At
	}
	later := t.Later()
	for i := range later {
		if err := t.checkChange(&later[i]); err != nil {
			return fmt.Errorf("the change at %v ms: %w", float64(later[i].At), err)
		}
	}
	return nil
}

func (t *Topology) checkChange(c *Change) error {
	switch {
	case !(c.At >= 0) || c.At >= math.MaxFloat64:
		return errors.New("must be a finite instant >= 0")
	case c.Workers < 0 || c.Decode < 0 || c.Workers > maxWorkers || c.Decode > maxWorkers:
		return fmt.Errorf("to %d and %d workers, must be 1 to %d", c.Workers, c.Decode, maxWorkers)
	case c.Decode > 0 && !t.Disaggregated():
		return errors.New("decode workers, require prefill and decode pools")
	case c.Workers+c.Decode > 0 && t.Autoscales():
		return errors.New("a change of the worker count and an autoscaler are mutually exclusive")
	case c.Workers+c.Decode > 0 && (len(t.Entry().Mix) > 0 || len(t.WorkerSpeeds) > 0):
		return errors.New("a change of the worker count with workers of several kinds is not supported, must be workers of one kind")
	case c.WorkerSpeeds != nil && (c.Workers+c.Decode > 0 || t.Autoscales() || slices.ContainsFunc(t.Changes, func(x Change) bool { return x.Workers+x.Decode > 0 })):
		return errors.New("a change of worker speeds and of the worker count are mutually exclusive")
	case c.Workers+c.Decode > 0 && slices.ContainsFunc(t.Changes, func(x Change) bool { return x.WorkerSpeeds != nil }):
		return errors.New("a change of the worker count and of worker speeds are mutually exclusive")
	case policy.Is[*policy.Given](c.Routing) || c.Routing != nil && policy.Is[*policy.Given](t.Router):
		return errors.New("a change of the router is not supported with a router policy of the caller's")
	case c.Faults != nil && t.Faults != nil:
		return errors.New("a change of the faults and faults from the start are mutually exclusive")
	case c.Faults != nil && t.Autoscales():
		return errors.New("a change of the faults and an autoscaler are mutually exclusive")
	case !(c.Speedup >= 0) || math.IsInf(c.Speedup, 0):
		return fmt.Errorf("speedup is %v, must be a number above 0", c.Speedup)
	}
	if f := c.Faults; f != nil {
		for i := range f.Events {
			if f.Events[i].At < c.At {
				return fmt.Errorf("a fault at %v ms, must be none before the change", float64(f.Events[i].At))
			}
		}
	}
	after := t.With(c)
	after.Changes, after.Possible = nil, nil
	return after.Validate()
}

// WithTopology returns s with the topology t. The workers of s do not change.
func (s *Stage) WithTopology(t *Topology) *Stage {
	own := *s
	own.Topology = t
	return &own
}

// laterNeeds returns the needs of all combinations of policies and admissions that may apply during the replay.
func (s *Stage) laterNeeds() ([]router.Needs, error) {
	later := s.Later()
	routings, admissions := []policy.Choice{s.Router}, []*policy.Admission{s.Admission}
	for i := range later {
		if r := later[i].Routing; r != nil {
			routings = append(routings, r)
		}
		if a := later[i].Admission; a != nil {
			admissions = append(admissions, a)
		}
	}
	if len(routings)+len(admissions) == 2 {
		return nil, nil
	}
	var all []router.Needs
	for _, r := range routings {
		for _, a := range admissions {
			n, err := s.needsOf(&Change{Routing: r, Admission: a})
			if err != nil {
				return nil, err
			}
			all = append(all, n)
		}
	}
	return all, checkCounting(all)
}

// needsOf returns the facts that the dispatcher must keep after a change.
func (s *Stage) needsOf(c *Change) (router.Needs, error) {
	after := s.WithTopology(s.Topology.With(c))
	p, err := after.NewPolicy()
	if err != nil {
		return router.Needs{}, err
	}
	a, err := after.newAdmission()
	if err != nil {
		return router.Needs{}, err
	}
	n := p.Needs()
	n.AddAdmission(a)
	return n, nil
}

// checkCounting rejects policies that count active blocks in different ways.
func checkCounting(all []router.Needs) error {
	shared, single := false, false
	for _, n := range all {
		shared, single = shared || n.Blocks && n.Shared, single || n.Blocks && !n.Shared
	}
	if shared && single {
		return errors.New("routers of which one counts the blocks that running requests share once and one as often as they are used (--router-assume-kv-reuse), must be the same before and after a change")
	}
	return nil
}

// NewChoosers returns a new policy for the pool's router, and the admission in front of it.
func (s *Stage) NewChoosers() (router.Policy, router.Admission, error) {
	p, err := s.NewPolicy()
	if err != nil {
		return nil, nil, err
	}
	if h := p.Needs().Hold; h != nil {
		if err := s.checkOrder(h.Order); err != nil {
			return nil, nil, err
		}
	}
	a, err := s.newAdmission()
	return p, a, err
}
