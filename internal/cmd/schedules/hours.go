// Package schedules finds the number of workers that a cluster requires in each hour of a trace. The package compares
// the cost with a fixed size and an autoscaler. The package also finds the size of a pool that several deployments
// share.
//
// Read hours.go, week.go, text.go, then cut.go and streamed.go (traces that are not kept in memory), then pool.go and
// pooltext.go (several deployments on one pool of GPUs).
package schedules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// hourMS is an hour of simulated time, in ms.
const hourMS sim.Time = 3600e3

// dayHours is the number of hours of a day.
const dayHours = 24

// Runner replays the chosen settings of a plan.
type Runner struct {
	Spec    replay.Spec  // the number of workers is not set; pass times and startup times are those of the plan
	Variant plan.Variant // the cluster is not fixed
	Resize  func(plan.Shape) replay.Topology
	Points  func(*loadgen.Workload) plan.Run // returns the function that replays clusters on a part of the workload
	Judge   func(*harness.Result, *loadgen.Workload) (plan.Measure, error)

	Most, Cores int
	Precision   float64
	Startup     time.Duration // time until a new worker serves
	HPATarget   float64       // target number of requests in flight per worker; 0: derived from the busiest hour
	Progress    func(done, expected int)
	Begin       Begin   // hour of the week at which the trace begins
	Quantile    float64 // quantile over the hours of the trace that fall on the same hour of the day or week, 0 to 1
}

// CheckCover returns an error for workloads of less than two hours.
func CheckCover(w *loadgen.Workload, speedup float64) error {
	if w.Graph != nil {
		return cli.Usagef("--by-hour is not supported with requests that wait for more than the turn before them")
	}
	first, last := plan.Span(w)
	if covers := (last - first) / sim.Time(speedup); covers < 2*hourMS {
		return refuseShort(covers)
	}
	return nil
}

// roundSeconds returns a time rounded down to seconds.
func roundSeconds(t sim.Time) time.Duration {
	return time.Duration(t) * time.Millisecond / time.Second * time.Second
}

// Find finds the smallest cluster for each hour. Find checks the objectives for this schedule, a fixed size and an
// HPA. near is an estimate of the size.
func (r *Runner) Find(ctx context.Context, w *loadgen.Workload, near plan.Shape) (*ByHour, error) {
	h := &ByHour{startup: r.Startup.Seconds(), price: r.Variant.Price, gpus: r.gpusOf}
	if err := h.cutHours(ctx, r, w, near); err != nil {
		return nil, err
	}
	return h, h.compareWays(ctx, r, w)
}

// ByHour is a schedule with a number of workers for each hour. ByHour also has the costs of other ways to size the
// cluster.
type ByHour struct {
	startup float64 // seconds until a new worker serves
	hours   []hourOf
	ways    []wayToSize
	price   float64 // price of a GPU per hour
	gpus    func(plan.Shape) float64

	begin     Begin
	quantile  float64
	day, week *rhythm // workers by hour of the day and of the week, for traces of at least two days
	cut       *Cut    // the trace in files; nil if the trace is in memory
}

// hourOf is an hour of the trace.
type hourOf struct {
	from, to sim.Time // simulated time; the last hour may be shorter
	requests int
	shape    plan.Shape
	missed   string // missed objective with the maximum number of workers; "": the hour meets the objectives
}

// wayToSize is a way to set the number of workers, with its results.
type wayToSize struct {
	name     string
	workers  string
	gpuHours float64 // GPU-hours for the whole trace
	met      bool
	missed   string
}

// cutHours finds the smallest cluster for each hour separately.
func (h *ByHour) cutHours(ctx context.Context, r *Runner, w *loadgen.Workload, near plan.Shape) error {
	speed := sim.Time(r.Spec.Speedup)
	first, last := plan.Span(w)
	for k := sim.Time(0); first+k*hourMS*speed <= last; k++ {
		part := plan.Between(w, first+k*hourMS*speed, first+(k+1)*hourMS*speed)
		one := hourOf{from: k * hourMS, to: min((k+1)*hourMS, (last-first)/speed), requests: len(part.Turns), shape: r.leastShape()}
		if one.requests > 0 {
			var err error
			if one.shape, one.missed, err = r.findHour(ctx, part, near); err != nil {
				return err
			}
			if one.missed == "" {
				near = one.shape
			}
		}
		h.hours = append(h.hours, one)
	}
	h.resizeMissed(r)
	return nil
}

// resizeMissed sets the cluster of hours that no number of workers can serve. Hours that no number of workers can
// serve get the largest cluster of all other hours, because more workers do not help.
func (h *ByHour) resizeMissed(r *Runner) {
	largest, met := r.leastShape(), false
	for i := range h.hours {
		if one := &h.hours[i]; one.missed == "" && one.requests > 0 {
			largest, met = largerShape(largest, one.shape), true
		}
	}
	for i := range h.hours {
		if one := &h.hours[i]; one.missed != "" && met {
			one.shape = largest
		}
	}
}

// leastShape returns the smallest possible cluster.
func (r *Runner) leastShape() plan.Shape {
	if r.Variant.Split {
		return plan.Two(1, 1)
	}
	return plan.One(1)
}

func largerShape(a, b plan.Shape) plan.Shape {
	return plan.Shape{Workers: max(a.Workers, b.Workers), Prefill: max(a.Prefill, b.Prefill), Decode: max(a.Decode, b.Decode)}
}

// findHour returns the smallest cluster that meets the objectives for a part of the workload. If the largest cluster
// misses an objective, it returns that objective.
func (r *Runner) findHour(ctx context.Context, part *loadgen.Workload, near plan.Shape) (plan.Shape, string, error) {
	v := r.Variant
	v.Near = near
	p, err := plan.Find(ctx, plan.Config{
		Run: r.Points(part), Variants: []plan.Variant{v}, Most: r.Most, Precision: r.Precision, Cores: r.Cores, Brief: true, Progress: r.Progress,
	})
	if err != nil {
		return plan.Shape{}, "", err
	}
	a := &p.Answers[0]
	if !a.Found {
		return a.Shape, a.At.Missed, nil
	}
	return a.Shape, "", nil
}

// mostRounds is the maximum number of times that workers are added to a schedule that misses the objectives.
const mostRounds = 12

// holdSchedule adds workers to hours until the whole trace meets the objectives or mostRounds is reached.
func (h *ByHour) holdSchedule(ctx context.Context, r *Runner, w *loadgen.Workload) (plan.Measure, error) {
	m, err := r.replaySchedule(ctx, w, h, 0)
	for round := 0; err == nil && !m.Met && round < mostRounds; round++ {
		if err = h.addWorkers(ctx, r, w); err == nil {
			m, err = r.replaySchedule(ctx, w, h, 0)
		}
	}
	return m, err
}

// compareWays checks the objectives over the whole trace for the schedule, a fixed size and an HPA.
func (h *ByHour) compareWays(ctx context.Context, r *Runner, w *loadgen.Workload) error {
	m, err := h.holdSchedule(ctx, r, w)
	if err != nil {
		return err
	}
	h.ways = append(h.ways, wayToSize{"by hour", h.describeSizes(), h.countGPUHours(), m.Met, m.Missed})
	h.findRhythms(r)
	names, cycles := h.cycles()
	for i := range cycles {
		other := h.repeat(cycles[i])
		if m, err = r.replaySchedule(ctx, w, other, 0); err != nil {
			return err
		}
		h.ways = append(h.ways, wayToSize{names[i], other.describeSizes(), other.countGPUHours(), m.Met, m.Missed})
	}
	fixed := r.leastShape()
	for i := range h.hours {
		fixed = largerShape(fixed, h.hours[i].shape)
	}
	if h.ways, err = h.addAutoscaled(ctx, r, w, fixed); err != nil {
		return err
	}
	for round := 0; ; round++ {
		if m, err = r.replayWhole(ctx, w, func(s *replay.Spec) { s.Topology = r.Resize(fixed) }); err != nil {
			return err
		}
		if m.Met || round == mostRounds {
			break
		}
		fixed = growShape(fixed)
	}
	h.ways = append(h.ways, wayToSize{"fixed", nameSize(fixed), r.gpusOf(fixed) * h.countHours(), m.Met, m.Missed})
	return nil
}

func growShape(s plan.Shape) plan.Shape {
	if s.Split() {
		return plan.Two(s.Prefill+1, s.Decode+1)
	}
	return plan.One(s.Workers + 1)
}

// gpusOf returns the number of GPUs of a cluster.
func (r *Runner) gpusOf(s plan.Shape) float64 {
	v := &r.Variant
	if v.CountGPUs != nil {
		return float64(v.CountGPUs(s))
	}
	return float64(s.Size() * max(1, v.GPUs))
}

// countHours returns the duration of the trace in hours.
func (h *ByHour) countHours() float64 {
	return float64(h.hours[len(h.hours)-1].to / hourMS)
}

// countGPUHours returns the GPU-hours of the schedule, including the time in which workers start.
func (h *ByHour) countGPUHours() float64 {
	sum, before := 0.0, h.hours[0].shape
	for i := range h.hours {
		one := &h.hours[i]
		sum += h.gpus(one.shape) * float64((one.to-one.from)/hourMS)
		added := plan.Shape{Workers: max(0, one.shape.Workers-before.Workers), Prefill: max(0, one.shape.Prefill-before.Prefill), Decode: max(0, one.shape.Decode-before.Decode)}
		if added.Size() > 0 {
			sum += h.gpus(added) * h.startup / 3600
		}
		before = one.shape
	}
	return sum
}

// describeSizes returns the smallest and the largest size of the schedule as text.
func (h *ByHour) describeSizes() string {
	least, most := h.hours[0].shape, h.hours[0].shape
	for i := range h.hours {
		s := h.hours[i].shape
		least = plan.Shape{Workers: min(least.Workers, s.Workers), Prefill: min(least.Prefill, s.Prefill), Decode: min(least.Decode, s.Decode)}
		most = largerShape(most, s)
	}
	switch {
	case least == most:
		return nameSize(most)
	case most.Split():
		return fmt.Sprintf("%d + %d to %s", least.Prefill, least.Decode, nameSize(most))
	}
	return fmt.Sprintf("%d to %v", least.Workers, most)
}

// nameSize returns the size of a cluster as text, prefill workers first.
func nameSize(s plan.Shape) string {
	if s.Split() {
		return fmt.Sprintf("%d + %d workers", s.Prefill, s.Decode)
	}
	return s.String()
}

// addWorkers adds a worker to each hour in which the schedule misses the objectives. If no single hour misses the
// objectives, addWorkers adds a worker to the hour with the worst values.
func (h *ByHour) addWorkers(ctx context.Context, r *Runner, w *loadgen.Workload) error {
	measures, err := h.judgeHours(ctx, r, w)
	if err != nil {
		return err
	}
	worst, most, grown := 0, -1.0, false
	for i := range measures {
		m := &measures[i]
		for k := range m.Values {
			if excess := m.Values[k].Excess(); excess > most {
				worst, most = i, excess
			}
		}
		if !m.Met && h.hours[i].requests > 0 {
			grown = true
			h.hours[i].shape = growShape(h.hours[i].shape)
		}
	}
	if !grown {
		h.hours[worst].shape = growShape(h.hours[worst].shape)
	}
	return nil
}

// judgeHours checks the objectives for each hour of the schedule.
func (h *ByHour) judgeHours(ctx context.Context, r *Runner, w *loadgen.Workload) ([]plan.Measure, error) {
	measures, wrong := make([]plan.Measure, len(h.hours)), make([]error, len(h.hours))
	seats := make(chan struct{}, max(1, r.Cores))
	var all sync.WaitGroup
	for i := range h.hours {
		if h.hours[i].requests == 0 {
			continue
		}
		all.Go(func() {
			seats <- struct{}{}
			measures[i], wrong[i] = r.replaySchedule(ctx, w, h, i+1)
			<-seats
		})
	}
	all.Wait()
	return measures, errors.Join(wrong...)
}

// replaySchedule replays the whole trace with the schedule. replaySchedule checks the objectives for an hour, counted
// from 1, or for all hours if hour is 0.
func (r *Runner) replaySchedule(ctx context.Context, w *loadgen.Workload, h *ByHour, hour int) (plan.Measure, error) {
	return r.replayWhole(ctx, w, func(s *replay.Spec) {
		s.Topology = r.Resize(h.hours[0].shape)
		at := h.hours[0].shape
		for i := range h.hours[1:] {
			next := &h.hours[i+1]
			ahead := sim.Time(1000 * h.startup)
			up, down := at, next.shape
			up = largerShape(up, next.shape)
			if up != at {
				s.Scale = append(s.Scale, scaleEvent(max(h.hours[i].from, next.from-ahead), up))
			}
			if down != up {
				s.Scale = append(s.Scale, scaleEvent(next.from, down))
			}
			at = next.shape
		}
		if hour > 0 {
			one := &h.hours[hour-1]
			s.Window.From, s.Window.To = one.from, one.to
			if hour == len(h.hours) {
				s.Window.To = 0
			}
		}
	})
}

// scaleEvent returns the event that changes the size of the cluster at a time.
func scaleEvent(at sim.Time, s plan.Shape) replay.ScaleEvent {
	if s.Split() {
		return replay.ScaleEvent{At: at, Workers: s.Prefill, Decode: s.Decode}
	}
	return replay.ScaleEvent{At: at, Workers: s.Workers, Decode: replay.KeepSize}
}

// replayWhole replays the whole trace with a changed spec and checks the objectives.
func (r *Runner) replayWhole(ctx context.Context, w *loadgen.Workload, change func(*replay.Spec)) (plan.Measure, error) {
	m, _, err := r.replayReported(ctx, w, change)
	return m, err
}

// replayReported is replayWhole with another result: the GPU-hours and the numbers of workers of an autoscaled
// cluster.
func (r *Runner) replayReported(ctx context.Context, w *loadgen.Workload, change func(*replay.Spec)) (plan.Measure, wayToSize, error) {
	var way wayToSize
	spec := r.Spec
	change(&spec)
	result, err := spec.RunOn(ctx, w, replay.Streams{})
	if err != nil {
		return plan.Measure{}, way, err
	}
	m, err := r.Judge(result, w)
	if err != nil {
		return m, way, err
	}
	if hours, ok := result.Report.Get("gpu_hours").Value().(float64); ok {
		way.gpuHours = hours
		least, _ := result.Report.Get("least_workers").Value().(int)
		most, _ := result.Report.Get("most_workers").Value().(int)
		way.workers = fmt.Sprintf("%d to %v", least, plan.One(most))
	}
	return m, way, nil
}

// addAutoscaled adds a Kubernetes HPA with a target of requests in flight per worker. The default target is the mean
// in the busiest hour with its smallest cluster.
func (h *ByHour) addAutoscaled(ctx context.Context, r *Runner, w *loadgen.Workload, fixed plan.Shape) ([]wayToSize, error) {
	if fixed.Split() {
		return h.ways, nil // with two pools each pool has an HPA, and the plan has no target for it
	}
	target := r.HPATarget
	if target == 0 {
		one := &h.hours[h.largestHour()]
		speed := sim.Time(r.Spec.Speedup)
		first, _ := plan.Span(w)
		var err error
		if target, err = r.findTarget(ctx, plan.Between(w, first+one.from*speed, first+one.from*speed+hourMS*speed), one.shape); err != nil {
			return nil, err
		}
	}
	config := r.configHPA(fixed, target)
	m, way, err := r.replayReported(ctx, w, func(s *replay.Spec) {
		s.Topology = r.Resize(h.hours[0].shape)
		s.Autoscale = &config
	})
	way.name, way.met, way.missed = fmt.Sprintf("HPA, in_flight %g", target), m.Met, m.Missed
	return append(h.ways, way), err
}

// largestHour returns the first hour with the largest cluster.
func (h *ByHour) largestHour() int {
	return slices.IndexFunc(h.hours, func(one hourOf) bool {
		return !slices.ContainsFunc(h.hours, func(other hourOf) bool { return other.shape.Size() > one.shape.Size() })
	})
}

// findTarget returns the mean number of requests in flight per worker in an hour, rounded down to an integer of at
// least 1.
func (r *Runner) findTarget(ctx context.Context, part *loadgen.Workload, shape plan.Shape) (float64, error) {
	spec := r.Spec
	spec.Topology = r.Resize(shape)
	if shape.Workers == 1 {
		spec.Topology = r.Resize(plan.One(2)) // a router requires two workers
	}
	result, err := spec.RunOn(ctx, part, replay.Streams{})
	if err != nil {
		return 0, err
	}
	inFlight := result.Report.RequestsPerS * result.Report.E2E.Mean / 1000
	return max(1, math.Floor(inFlight/float64(shape.Workers))), nil
}
