package autoscale

import (
	"errors"

	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/scheduler"
)

// dynamo scales as Dynamo's planner does (docs/autoscaling.md, Dynamo's planner).
type dynamo struct {
	c *Config
	reason
	planner *planner.Planner
}

// Workers are what an autoscaler may know of the workers that it scales.
type Workers struct {
	Role   scheduler.Role
	Engine planner.Engine
}

// NewDynamo returns a scaler as Dynamo's planner is, of workers of some kind.
func NewDynamo(c *Config, w Workers) (Scaler, error) {
	p, err := planner.New(c.Planner, w.Role, w.Engine)
	if err != nil {
		return nil, err
	}
	return &dynamo{c: c, planner: p}, nil
}

// Want returns the number of workers.
func (d *dynamo) Want(s *Signals) int {
	n, ok := d.planner.Tick(float64(s.Now)/1000, s.view(), s.Traffic)
	if d.why = d.planner.Why(); !ok {
		return s.Workers
	}
	return n
}

// view returns what Dynamo's planner sees of a pool.
func (s *Signals) view() *planner.View {
	v := planner.View{Ready: s.Ready, Expected: s.Workers}
	for i := range s.Each {
		if p := s.Each[i].Pass; p != nil {
			v.Passes = append(v.Passes, *p)
		}
	}
	return &v
}

// checkPlanner refuses what Dynamo's planner refuses.
func (c *Config) checkPlanner() error {
	if c.Planner == nil {
		return errors.New("the planner has no configuration: start from Default")
	}
	return c.Planner.Check(float64(c.Sync) / 1000)
}
