package replay

import (
	"context"
	"errors"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// foresee returns, by pool, the load that a perfect autoscaler knows in advance. The load is the requests at each
// instant if all workers run from the start. foresee requires a separate replay.
func (s *Spec) foresee(ctx context.Context, workload *loadgen.Workload, own bool) (loads [2]*autoscale.Foreseen, err error) {
	known := func(i int) bool {
		a := s.AutoscalerOf(i)
		return own && a != nil && a.Kind == autoscale.Foreknown
	}
	switch {
	case !known(0) && !known(1):
		return loads, nil
	case s.Mode != loadgen.Trace:
		return loads, errors.New("a perfect autoscaler in closed loop, where the load depends on the workers: use open-loop arrivals")
	}
	calm := *s
	calm.Window = collector.Window{}
	counts := make([]int, len(s.Pools))
	for i := range s.Pools {
		if counts[i] = s.Pools[i].Count; s.AutoscalerOf(i) != nil {
			counts[i] = s.AutoscalerOf(i).Max
		}
		if known(i) && s.AutoscalerOf(i).Load.InFlight == 0 {
			return loads, errors.New("the load of a worker of a perfect autoscaler is missing: use in_flight, as in_flight: 8, or --slo with replay trace, to find it")
		}
	}
	calm.Autoscale, calm.AutoscaleDecode, calm.Faults, calm.Scale = nil, nil, nil, nil
	calm.Topology = calm.Topology.Resize(counts...)
	result, err := calm.RunOn(ctx, workload, Streams{})
	if err != nil {
		return loads, err
	}
	for i := range calm.Pools {
		if !known(i) {
			continue
		}
		var stays [][2]sim.Time
		for _, r := range result.Collector.Requests() {
			if !r.Counted() {
				continue
			}
			stay := [2]sim.Time{r.Arrival, r.Last}
			switch calm.Pools[i].Role {
			case scheduler.Prefill:
				stay[1] = r.First
			case scheduler.Decode:
				stay[0] = r.First
			}
			stays = append(stays, stay)
		}
		loads[i] = autoscale.NewForeseen(stays)
	}
	return loads, nil
}

// beginPerfect returns s with the initial number of workers that a perfect autoscaler requests.
func (s *Spec) beginPerfect(loads [2]*autoscale.Foreseen) *Spec {
	if loads == ([2]*autoscale.Foreseen{}) {
		return s
	}
	own, counts := *s, make([]int, len(s.Pools))
	for i := range s.Pools {
		p := &s.Pools[i]
		if counts[i] = p.Count; loads[i] != nil {
			counts[i] = autoscale.Begin(s.AutoscalerOf(i), loads[i], sim.Time(p.Engine.StartupSeconds*1000.0))
		}
	}
	own.Topology = own.Topology.Resize(counts...)
	return &own
}
