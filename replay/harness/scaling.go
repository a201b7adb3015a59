package harness

import (
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// Scaling is what an autoscaler did, and how many workers there were.
type Scaling struct {
	Acts  []ScalingAct
	Sizes []PoolSize // from each of these instants to the next
	End   sim.Time   // when the last request had ended

	cost float64
}

// ScalingAct is a change of the number of workers that is wanted.
type ScalingAct struct {
	At       sim.Time
	From, To int
}

// PoolSize is how many workers there are from an instant on.
type PoolSize struct {
	At                       sim.Time
	Ready, Starting, Leaving int
}

// NewScaling returns the scaling of workers that cost so much in an hour.
func NewScaling(cost float64) *Scaling { return &Scaling{cost: cost} }

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

// Fields returns what a report tells of it.
func (s *Scaling) Fields() []collector.Field {
	up, down := 0, 0
	for _, a := range s.Acts {
		if a.To > a.From {
			up++
		} else {
			down++
		}
	}
	hours, least, mean, most := s.WorkerHours()
	all := []collector.Field{
		{Key: "worker_hours", Value: hours},
		{Key: "scale_ups", Value: up},
		{Key: "scale_downs", Value: down},
		{Key: "least_workers", Value: least},
		{Key: "mean_workers", Value: mean},
		{Key: "most_workers", Value: most},
	}
	if s.cost > 0 {
		all = append(all, collector.Field{Key: "worker_cost", Value: hours * s.cost})
	}
	return all
}
