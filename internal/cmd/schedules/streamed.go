package schedules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// FindCut is Find for a trace that is not in memory. FindCut replays each hour together with the previous hour, for
// each way to size the cluster. The objectives must be met in every hour.
func (r *Runner) FindCut(ctx context.Context, c *Cut, near plan.Shape) (*ByHour, error) {
	h := &ByHour{startup: r.Startup.Seconds(), price: r.Variant.Price, gpus: r.gpusOf, cut: c}
	for k := range c.hours {
		one := hourOf{from: sim.Time(k) * hourMS, to: min(sim.Time(k+1)*hourMS, c.span()), shape: r.leastShape()}
		if c.hours[k].requests > 0 {
			part, err := c.Open(ctx, k, k+1)
			if err != nil {
				return nil, err
			}
			one.requests = len(part.Turns)
			if one.shape, one.missed, err = r.findHour(ctx, part, near); err != nil {
				return nil, err
			}
			if one.missed == "" {
				near = one.shape
			}
		}
		h.hours = append(h.hours, one)
	}
	h.resizeMissed(r)
	x := &cutRun{r: r, c: c, known: map[pairKey]plan.Measure{}}
	if err := x.holdHours(ctx, h); err != nil {
		return nil, err
	}
	h.findRhythms(r)
	return h, x.compare(ctx, h)
}

// pairKey identifies an hour with the clusters of this hour and of the previous hour.
type pairKey struct {
	hour        int
	before, now plan.Shape
}

// cutRun replays schedules by hour and caches the results.
type cutRun struct {
	r     *Runner
	c     *Cut
	mu    sync.Mutex
	known map[pairKey]plan.Measure
}

// holdHours adds workers to hours that miss the objectives when they follow the previous hour, for at most mostRounds
// rounds.
func (x *cutRun) holdHours(ctx context.Context, h *ByHour) error {
	measures, err := x.judge(ctx, h)
	for round := 0; err == nil && round < mostRounds; round++ {
		grown := false
		for i := range measures {
			if one := &h.hours[i]; one.requests > 0 && !measures[i].Met && one.missed == "" {
				one.shape, grown = growShape(one.shape), true
			}
		}
		if !grown {
			break
		}
		measures, err = x.judge(ctx, h)
	}
	return err
}

// eachHour calls do in parallel for each hour with requests.
func (x *cutRun) eachHour(h *ByHour, do func(k int) error) error {
	var done atomic.Int64
	wrong := make([]error, len(h.hours))
	seats := make(chan struct{}, max(1, x.r.Cores))
	var all sync.WaitGroup
	for k := range h.hours {
		if h.hours[k].requests == 0 {
			continue
		}
		seats <- struct{}{}
		all.Go(func() {
			wrong[k] = do(k)
			x.r.Progress(int(done.Add(1)), len(h.hours))
			<-seats
		})
	}
	all.Wait()
	return errors.Join(wrong...)
}

// judge checks the objectives for each hour of a schedule.
func (x *cutRun) judge(ctx context.Context, h *ByHour) ([]plan.Measure, error) {
	measures := make([]plan.Measure, len(h.hours))
	err := x.eachHour(h, func(k int) error {
		key := pairKey{hour: k, before: h.hours[max(0, k-1)].shape, now: h.hours[k].shape}
		x.mu.Lock()
		m, known := x.known[key]
		x.mu.Unlock()
		if !known {
			var err error
			m, _, err = x.replayHour(ctx, h, k, func(s *replay.Spec, begin sim.Time) {
				if begin <= 0 {
					s.Topology = x.r.Resize(key.now)
					return
				}
				s.Topology = x.r.Resize(key.before)
				up := largerShape(key.before, key.now)
				if up != key.before {
					s.Scale = append(s.Scale, scaleEvent(max(0, begin-sim.Time(1000*h.startup)), up))
				}
				if key.now != up {
					s.Scale = append(s.Scale, scaleEvent(begin, key.now))
				}
			})
			if err != nil {
				return err
			}
			x.mu.Lock()
			x.known[key] = m
			x.mu.Unlock()
		}
		measures[k] = m
		return nil
	})
	return measures, err
}

// replayHour replays an hour together with the previous hour and checks the objectives for the hour. change sets the
// cluster. The parameter begin of change is the simulated time at which the hour begins. begin is at most 0 if no
// request arrives before the hour.
func (x *cutRun) replayHour(ctx context.Context, h *ByHour, k int, change func(s *replay.Spec, begin sim.Time)) (plan.Measure, *harness.Result, error) {
	w, begin, err := x.r.pairOf(ctx, x.c, k)
	if err != nil {
		return plan.Measure{}, nil, err
	}
	spec := x.r.Spec
	change(&spec, begin)
	if begin > 0 {
		spec.Window.From = begin
	}
	result, err := spec.RunOn(ctx, w, replay.Streams{})
	if err != nil {
		return plan.Measure{}, nil, fmt.Errorf("hour %d: %w", k, err)
	}
	m, err := x.r.Judge(result, w)
	return m, result, err
}

// compare checks the objectives in every hour for the schedule, the repeating schedules, a fixed size and an HPA.
func (x *cutRun) compare(ctx context.Context, h *ByHour) error {
	add := func(name string, way *ByHour) (met bool, err error) {
		measures, err := x.judge(ctx, way)
		missed := describeMissed(way, measures)
		h.ways = append(h.ways, wayToSize{name, way.describeSizes(), way.countGPUHours(), missed == "", missed})
		return missed == "", err
	}
	if _, err := add("by hour", h); err != nil {
		return err
	}
	names, cycles := h.cycles()
	for i := range cycles {
		if _, err := add(names[i], h.repeat(cycles[i])); err != nil {
			return err
		}
	}
	fixed := x.r.leastShape()
	for i := range h.hours {
		fixed = largerShape(fixed, h.hours[i].shape)
	}
	if err := x.addAutoscaled(ctx, h, fixed); err != nil {
		return err
	}
	for round := 0; ; round++ {
		same := *h
		same.hours = append([]hourOf(nil), h.hours...)
		for i := range same.hours {
			same.hours[i].shape = fixed
		}
		kept := len(h.ways)
		met, err := add("fixed", &same)
		if err != nil || met || round == mostRounds || h.missesAlways() {
			h.ways[kept].workers = nameSize(fixed)
			return err
		}
		h.ways, fixed = h.ways[:kept], growShape(fixed)
	}
}

// missesAlways reports whether some hour misses the objectives with any number of workers.
func (h *ByHour) missesAlways() bool {
	for i := range h.hours {
		if h.hours[i].missed != "" {
			return true
		}
	}
	return false
}

// describeMissed returns the number of hours that miss the objectives and the first missed objective. describeMissed
// returns "" if all hours meet the objectives.
func describeMissed(h *ByHour, measures []plan.Measure) string {
	count, first := 0, -1
	for i := range measures {
		if h.hours[i].requests > 0 && !measures[i].Met {
			if count++; first < 0 {
				first = i
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d hours miss, the first is hour %d: %s", count, len(h.hours), first, measures[first].Missed)
}

// addAutoscaled adds a Kubernetes HPA. Each hour is replayed with the previous hour, which begins with the workers of
// the schedule. Only the GPU-hours of the hour itself are counted.
func (x *cutRun) addAutoscaled(ctx context.Context, h *ByHour, fixed plan.Shape) error {
	if fixed.Split() {
		return nil
	}
	target := x.r.HPATarget
	if target == 0 {
		k := h.largestHour()
		part, err := x.c.Open(ctx, k, k+1)
		if err != nil {
			return err
		}
		if target, err = x.r.findTarget(ctx, part, h.hours[k].shape); err != nil {
			return err
		}
	}
	config := x.r.configHPA(fixed, target)
	measures, usages := make([]plan.Measure, len(h.hours)), make([]harness.Usage, len(h.hours))
	err := x.eachHour(h, func(k int) error {
		begun := sim.Time(0)
		m, result, err := x.replayHour(ctx, h, k, func(s *replay.Spec, begin sim.Time) {
			begun = max(0, begin)
			s.Topology = x.r.Resize(h.hours[max(0, k-1)].shape)
			s.Autoscale = &config
		})
		if err != nil {
			return err
		}
		measures[k], usages[k] = m, usageWithin(result.Scaling, begun, begun+h.hours[k].to-h.hours[k].from)
		return nil
	})
	if err != nil {
		return err
	}
	way := wayToSize{name: fmt.Sprintf("HPA, in_flight %g", target), missed: describeMissed(h, measures)}
	way.met = way.missed == ""
	least, most := -1, 0
	for k := range usages {
		if h.hours[k].requests == 0 { // without requests it has the minimum number of workers
			way.gpuHours += h.gpus(x.r.leastShape()) * float64((h.hours[k].to-h.hours[k].from)/hourMS)
			least = 1
			continue
		}
		u := &usages[k]
		way.gpuHours += u.GPUHours
		if most = max(most, u.Most); least < 0 || u.Least < least {
			least = u.Least
		}
	}
	way.workers = fmt.Sprintf("%d to %v", least, plan.One(most))
	h.ways = append(h.ways, way)
	return nil
}

// usageWithin returns the usage of a pool between two times. After the end of the replay the pool keeps its last
// size.
func usageWithin(all []*harness.Scaling, from, to sim.Time) harness.Usage {
	var u harness.Usage
	for _, s := range all {
		first := true
		for i, size := range s.Sizes {
			until := to
			if i+1 < len(s.Sizes) {
				until = min(to, s.Sizes[i+1].At)
			}
			if length := until - max(from, size.At); length > 0 {
				u.GPUHours += float64(size.GPUs) * float64(length/hourMS)
				u.Most = max(u.Most, size.Ready)
				if first || size.Ready < u.Least {
					u.Least, first = size.Ready, false
				}
			}
		}
	}
	return u
}

// configHPA returns an HPA with a target number of requests in flight per worker.
func (r *Runner) configHPA(fixed plan.Shape, target float64) autoscale.Config {
	config := autoscale.Default(autoscale.HPA)
	config.Min, config.Max = 1, min(2*fixed.Workers, autoscale.MostWorkers)
	config.Targets = []autoscale.Target{{Metric: autoscale.InFlight, Value: target}}
	return config
}
