package autoscale

import (
	"errors"

	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// dynamo scales one pool by the rules of Dynamo's planner (docs/autoscaling.md, "Dynamo's planner").
type dynamo struct {
	c *Config
	reason
	planner *planner.Planner
}

// Workers describes the workers that an autoscaler scales.
type Workers struct {
	Role   scheduler.Role
	Engine planner.Engine
}

// NewDynamo returns a scaler with the rules of Dynamo's planner.
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

// dynamoPair is Dynamo's planner for two pools. dynamoPair makes one decision per instant.
type dynamoPair struct {
	planner *planner.Pair
	at      sim.Time // instant of the latest decision
	n       [2]int
	ok      bool
}

// dynamoHalf is the scaler of one pool of a dynamoPair.
type dynamoHalf struct {
	pair *dynamoPair
	half int // 0: prefill, 1: decode
	reason
}

// NewDynamoPair returns the scalers of a prefill and a decode pool that share one planner.
func NewDynamoPair(c *Config, prefill, decode Workers) (all [2]Scaler, err error) {
	p, err := planner.NewPair(c.Planner, prefill.Engine, decode.Engine)
	if err != nil {
		return all, err
	}
	pair := &dynamoPair{planner: p, at: -1}
	return [2]Scaler{&dynamoHalf{pair: pair}, &dynamoHalf{pair: pair, half: 1}}, nil
}

// Want returns the number of workers.
func (d *dynamoHalf) Want(s *Signals) int {
	x := d.pair
	if x.at != s.Now && s.Peer != nil {
		both := [2]*Signals{s, s.Peer}
		if d.half == 1 {
			both = [2]*Signals{s.Peer, s}
		}
		x.at = s.Now
		x.n[0], x.n[1], x.ok = x.planner.Tick(float64(s.Now)/1000, both[0].view(), both[1].view(), both[0].Traffic)
	}
	var why [2]string
	why[0], why[1] = x.planner.Why()
	d.why = why[d.half]
	if !x.ok {
		return s.Workers
	}
	return x.n[d.half]
}

// view returns the state of a pool for Dynamo's planner.
func (s *Signals) view() *planner.View {
	v := planner.View{Ready: s.Ready, Expected: s.Workers}
	for i := range s.Each {
		if p := s.Each[i].Pass; p != nil {
			v.Passes = append(v.Passes, *p)
		}
	}
	return &v
}

// checkPlanner returns an error for settings that Dynamo's planner rejects.
func (c *Config) checkPlanner() error {
	if c.Planner == nil {
		return errors.New("the planner has no configuration: start from Default")
	}
	return c.Planner.Check(float64(c.Sync) / 1000)
}
