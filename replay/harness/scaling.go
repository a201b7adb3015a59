package harness

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Scaling is what the autoscaler of a pool did, and how many workers there were.
type Scaling struct {
	Stage scheduler.Role
	Acts  []ScalingAct
	Sizes []PoolSize // from each of these instants to the next
	End   sim.Time   // when the last request had ended

	cost float64
}

// ScalingAct is a change of the number of workers that is wanted.
type ScalingAct struct {
	At       sim.Time
	From, To int
	Why      string // the scaler's own words
	Given    bool   // by somebody else, as at a given time
}

// PoolSize is how many workers there are from an instant on.
type PoolSize struct {
	At                       sim.Time
	Ready, Starting, Leaving int
}

// NewScaling returns the scaling of a pool whose workers cost so much in an hour.
func NewScaling(stage scheduler.Role, cost float64) *Scaling {
	return &Scaling{Stage: stage, cost: cost}
}

// Name returns what the pool's workers are called, with a capital letter.
func (s *Scaling) Name() string {
	switch s.Stage {
	case scheduler.Prefill:
		return "Prefill workers"
	case scheduler.Decode:
		return "Decode workers"
	}
	return "Workers"
}

// Cost returns what so many worker-hours cost, 0 where it is not known.
func (s *Scaling) Cost(hours float64) float64 { return hours * s.cost }

// SetSize notes how many workers there are from now on.
func (s *Scaling) SetSize(size PoolSize) {
	if n := len(s.Sizes); n > 0 && s.Sizes[n-1].At == size.At {
		s.Sizes[n-1] = size
		return
	}
	s.Sizes = append(s.Sizes, size)
}

// WorkerHours returns how long workers were there, from the instant at which they were asked
// for, and the least, the mean and the largest number of those that got requests.
func (s *Scaling) WorkerHours() (hours float64, least int, mean float64, most int) {
	var paid, ready float64
	for i, size := range s.Sizes {
		until := s.End
		if i+1 < len(s.Sizes) {
			until = min(until, s.Sizes[i+1].At)
		}
		if i > 0 && size.At > s.End {
			break
		}
		if i == 0 {
			least = size.Ready
		}
		least, most = min(least, size.Ready), max(most, size.Ready)
		length := float64((until - size.At).Max0())
		paid += float64(length * float64(size.Ready+size.Starting+size.Leaving))
		ready += float64(length * float64(size.Ready))
	}
	const hour = 3_600_000
	if s.End > 0 {
		mean = ready / float64(s.End)
	}
	return paid / hour, least, mean, most
}

// ScalingFields returns what a report tells of the autoscalers of a cluster. Where there are two
// pools, the keys of each begin with its name, and sums of both follow.
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
		sum.hours, sum.cost, sum.ups, sum.downs = sum.hours+x.hours, sum.cost+x.cost, sum.ups+x.ups, sum.downs+x.downs
	}
	fields = append(fields, collector.Field{Key: "worker_hours", Value: sum.hours},
		collector.Field{Key: "scale_ups", Value: sum.ups}, collector.Field{Key: "scale_downs", Value: sum.downs})
	return append(fields, sum.costField()...)
}

// scalingSum is what adds up over pools.
type scalingSum struct {
	hours, cost float64
	ups, downs  int
}

// costField returns the cost, where it is known.
func (x *scalingSum) costField() []collector.Field {
	if x.cost == 0 {
		return nil
	}
	return []collector.Field{{Key: "worker_cost", Value: x.cost}}
}

// fields returns what a report tells of one pool, and what of it adds up.
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
	hours, least, mean, most := s.WorkerHours()
	x.hours, x.cost = hours, s.Cost(hours)
	return []collector.Field{
		{Key: prefix + "worker_hours", Value: hours},
		{Key: prefix + "scale_ups", Value: x.ups},
		{Key: prefix + "scale_downs", Value: x.downs},
		{Key: prefix + "least_workers", Value: least},
		{Key: prefix + "mean_workers", Value: mean},
		{Key: prefix + "most_workers", Value: most},
	}, x
}
