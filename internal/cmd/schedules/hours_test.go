package schedules

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// busyHours returns a workload with the given number of evenly spaced requests in each hour.
func busyHours(requests ...int) *loadgen.Workload {
	w := &loadgen.Workload{Synthetic: true}
	for hour, n := range requests {
		for i := range n {
			k := int32(len(w.Sessions))
			at := hourMS*sim.Time(hour) + hourMS*sim.Time(i)/sim.Time(n)
			w.Sessions = append(w.Sessions, loadgen.Session{Arrival: at, HasArrival: true, First: k, Turns: 1})
			w.Turns = append(w.Turns, loadgen.Turn{Session: k, Next: -1, Input: 2000, Output: 400})
		}
	}
	return w
}

// runnerOf returns a Runner for engines without a GPU. limit is the objective for the mean time per output token.
func runnerOf(limit float64, startup time.Duration) *Runner {
	engine := engineargs.Default()
	engine.StartupSeconds = startup.Seconds()
	spec := replay.Spec{Speedup: 1}
	spec.Pools = replay.OnePool(engine, 1)
	r := &Runner{Spec: spec, Variant: plan.Variant{GPUs: 2, Price: 3}, Most: 16, Cores: 2, Precision: 0.01, Startup: startup, Progress: func(int, int) {}}
	r.Resize = func(s plan.Shape) replay.Topology { return spec.Resize(s.Workers) }
	r.Judge = func(result *harness.Result, _ *loadgen.Workload) (plan.Measure, error) {
		mean := result.Report.TPOT.Mean
		return plan.Measure{Met: mean <= limit, Missed: fmt.Sprint(mean), Values: []plan.Value{{Value: mean, Limit: limit, Met: mean <= limit}}}, nil
	}
	r.Points = func(part *loadgen.Workload) plan.Run {
		return func(ctx context.Context, p plan.Point) (plan.Measure, error) {
			own := spec
			own.Topology = r.Resize(p.Shape)
			result, err := own.RunOn(ctx, part, replay.Streams{})
			if err != nil {
				return plan.Measure{}, err
			}
			m, err := r.Judge(result, part)
			m.Point = p
			return m, err
		}
	}
	return r
}

// Each hour has the smallest number of workers that meets the objectives for this hour alone, unless the whole trace
// requires more. The schedule meets the objectives. The schedule costs at most as much as the workers of the busiest
// hour in all hours.
func TestScheduleIsSmallest(t *testing.T) {
	ctx, w := context.Background(), busyHours(300, 6000, 2500, 0, 4000)
	for _, startup := range []time.Duration{0, 2 * time.Minute} {
		r := runnerOf(5.9, startup)
		h, err := r.Find(ctx, w, plan.Shape{})
		if err != nil {
			t.Fatal(err)
		}
		sizes := map[int]bool{}
		for i := range h.hours {
			one := &h.hours[i]
			sizes[one.shape.Workers] = true
			part := plan.Between(w, hourMS*sim.Time(i), hourMS*sim.Time(i+1))
			for n := 1; n < one.shape.Workers && one.requests > 0; n++ {
				m, err := r.Points(part)(ctx, plan.Point{Shape: plan.One(n), Load: 1})
				if err != nil || m.Met && n < one.shape.Workers-1 {
					t.Errorf("hour %d: %d workers meet, and the schedule has %d (%v)", i, n, one.shape.Workers, err)
				}
			}
		}
		if len(h.hours) != 5 || len(sizes) < 3 || h.hours[3].shape != plan.One(1) {
			t.Errorf("%d hours of %d sizes, %v without requests", len(h.hours), len(sizes), h.hours[3].shape)
		}
		schedule, hpa, fixed := &h.ways[0], &h.ways[1], &h.ways[2]
		if !schedule.met || !fixed.met || schedule.gpuHours >= fixed.gpuHours || hpa.gpuHours <= 0 {
			t.Errorf("%+v", h.ways)
		}
		if startup > 0 && schedule.gpuHours <= sumHours(h) {
			t.Errorf("%v GPU-hours, no more than the %v without what starts", schedule.gpuHours, sumHours(h))
		}
	}
}

// sumHours returns the GPU-hours of a schedule without startup times.
func sumHours(h *ByHour) float64 {
	sum := 0.0
	for i := range h.hours {
		sum += h.gpus(h.hours[i].shape) * float64((h.hours[i].to-h.hours[i].from)/hourMS)
	}
	return sum
}
