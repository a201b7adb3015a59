package harness

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Scaling is the acts of the autoscaler of a pool, and the number of workers over time.
type Scaling struct {
	Stage scheduler.Role
	Acts  []ScalingAct
	Sizes []PoolSize // each size applies until the next
	End   sim.Time   // end of the last request
	// Drains counts drains that ended by a timeout; nil: drains have no timeout.
	Drains *Drains
}

// Drains counts the workers that were killed because their drains exceeded the timeout, and their requests.
type Drains struct {
	Timeout                 sim.Time
	Kills                   int // number of workers
	Lost, Retried, Migrated int // numbers of requests
}

// CountKills returns the number of workers that were killed because their drains exceeded the timeout.
func CountKills(all []*Scaling) (n int) {
	for _, s := range all {
		if s.Drains != nil {
			n += s.Drains.Kills
		}
	}
	return n
}

// fields returns the report fields of d.
func (d *Drains) fields(prefix string) []collector.Field {
	if d == nil {
		return nil
	}
	return []collector.Field{
		collector.Of(prefix+"drain_kills", d.Kills), collector.Of(prefix+"drain_lost_requests", d.Lost),
		collector.Of(prefix+"drain_retried_requests", d.Retried), collector.Of(prefix+"drain_migrated_requests", d.Migrated),
	}
}

// ScalingAct is a change of the requested number of workers.
type ScalingAct struct {
	At       sim.Time
	From, To int
	Why      string // the reason that the scaler gave
	Given    bool   // the change is planned, not an act of the autoscaler
}

// PoolSize is the number of workers of a pool from an instant on.
type PoolSize struct {
	At                       sim.Time
	Ready, Starting, Leaving int
	GPUs                     int     // of all workers
	PerHour                  float64 // cost of all workers per hour, 0: unknown
}

// NewScaling returns the scaling of a pool.
func NewScaling(stage scheduler.Role) *Scaling { return &Scaling{Stage: stage} }

// Name returns a name for the pool's workers, with a capital letter.
func (s *Scaling) Name() string {
	switch s.Stage {
	case scheduler.Prefill:
		return "Prefill workers"
	case scheduler.Decode:
		return "Decode workers"
	}
	return "Workers"
}

// SetSize records the number of workers from now on.
func (s *Scaling) SetSize(size PoolSize) {
	if n := len(s.Sizes); n > 0 && s.Sizes[n-1].At == size.At {
		s.Sizes[n-1] = size
		return
	}
	s.Sizes = append(s.Sizes, size)
}

// Usage is the number of workers of a pool, and their cost.
type Usage struct {
	WorkerHours float64 // from the request for a worker to its end
	GPUHours    float64
	Cost        float64 // 0: unknown
	// Least, Most and Mean are the minimum, maximum and mean number of active workers.
	Least, Most int
	Mean        float64
}

// Usage returns the usage from the start to the end of the last request.
func (s *Scaling) Usage() Usage {
	const hour = 3_600_000
	var u Usage
	for i, size := range s.Sizes {
		until := s.End
		if i+1 < len(s.Sizes) {
			until = min(until, s.Sizes[i+1].At)
		}
		if i > 0 && size.At > s.End {
			break
		}
		if i == 0 {
			u.Least = size.Ready
		}
		u.Least, u.Most = min(u.Least, size.Ready), max(u.Most, size.Ready)
		length := float64((until - size.At).Max0())
		u.WorkerHours += float64(length * float64(size.Ready+size.Starting+size.Leaving))
		u.GPUHours += float64(length * float64(size.GPUs))
		u.Cost += float64(length * size.PerHour)
		u.Mean += float64(length * float64(size.Ready))
	}
	if u.WorkerHours, u.GPUHours, u.Cost = u.WorkerHours/hour, u.GPUHours/hour, u.Cost/hour; s.End > 0 {
		u.Mean /= float64(s.End)
	}
	return u
}

// ScalingFields returns the report fields about the autoscalers of a cluster. With two pools, the keys of each pool
// begin with its name, and sums over both pools follow.
func ScalingFields(all []*Scaling) []collector.Field {
	if len(all) == 0 {
		return nil
	}
	if all[0].Stage == scheduler.Aggregated {
		fields, sum := all[0].fields("")
		return append(fields, sum.costField()...)
	}
	var fields []collector.Field
	var sum scalingSum
	for _, s := range all {
		own, x := s.fields(s.Stage.String() + "_")
		fields = append(fields, own...)
		sum.add(x)
	}
	fields = append(fields, collector.Of("worker_hours", sum.hours), collector.Of("gpu_hours", sum.gpus),
		collector.Of("scale_ups", sum.ups), collector.Of("scale_downs", sum.downs))
	return append(fields, sum.costField()...)
}

// scalingSum is values that add up over pools.
type scalingSum struct {
	hours, gpus, cost float64
	ups, downs        int
}

func (x *scalingSum) add(y scalingSum) {
	x.hours, x.gpus, x.cost = x.hours+y.hours, x.gpus+y.gpus, x.cost+y.cost
	x.ups, x.downs = x.ups+y.ups, x.downs+y.downs
}

// costField returns the field of the cost, if it is known.
func (x *scalingSum) costField() []collector.Field {
	if x.cost == 0 {
		return nil
	}
	return []collector.Field{collector.Of("worker_cost", x.cost)}
}

// fields returns the report fields of one pool, and the values that add up.
func (s *Scaling) fields(prefix string) ([]collector.Field, scalingSum) {
	var x scalingSum
	for _, a := range s.Acts {
		switch {
		case a.Given:
		case a.To > a.From:
			x.ups++
		default:
			x.downs++
		}
	}
	u := s.Usage()
	x.hours, x.gpus, x.cost = u.WorkerHours, u.GPUHours, u.Cost
	return append([]collector.Field{
		collector.Of(prefix+"worker_hours", u.WorkerHours),
		collector.Of(prefix+"gpu_hours", u.GPUHours),
		collector.Of(prefix+"scale_ups", x.ups),
		collector.Of(prefix+"scale_downs", x.downs),
		collector.Of(prefix+"least_workers", u.Least),
		collector.Of(prefix+"mean_workers", u.Mean),
		collector.Of(prefix+"most_workers", u.Most),
	}, s.Drains.fields(prefix)...), x
}
