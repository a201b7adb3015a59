package online

import (
	"fmt"
	"slices"
	"time"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// recordUnfinished records the progress of requests that did not complete, and excludes them from the per-request
// statistics.
func (x *run) recordUnfinished() {
	var known []int
	for _, r := range x.Collector.Requests() {
		known = append(known, int(r.Tokens))
	}
	for _, p := range x.pools {
		if p.Role == scheduler.Prefill {
			continue
		}
		for _, w := range p.workers {
			w.yieldProgress(func(id sim.RequestID, tokens int, last sim.Time) {
				if known[id] > 0 && tokens > known[id] {
					x.Collector.Progress(id, tokens, last)
				}
			})
		}
	}
	for id, e := range x.entries {
		if !e.over || e.err != nil {
			x.Collector.Exclude(sim.RequestID(id))
		}
	}
}

// yieldProgress yields the tokens that requests on the core have gained in ended passes, with the real instant of the
// latest token. The worker's loop must have returned.
func (w *Worker) yieldProgress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	if len(w.ends.real) == 0 {
		return
	}
	w.cfg.Core.Progress(func(id sim.RequestID, tokens int, last sim.Time) {
		if w.open && last == w.pass.End {
			yield(id, tokens-1, w.ends.real[len(w.ends.real)-1])
			return
		}
		yield(id, tokens, w.ends.realEnd(last))
	})
}

// timerBound is the mean duration of a pass in ms below which a run measures the machine's timers.
const timerBound = 2.0

// makeResult derives the report from the collected records.
func (x *run) makeResult(cause error, wall time.Duration) *harness.Result {
	if cause != nil {
		x.Collector.EndedEarly()
	}
	fields := []collector.Field{
		collector.Of("partial", cause != nil),
		collector.Of("cancelled", x.cancelled),
		collector.Of("late_arrival_p50_ms", nearestRank([]*sampler{&x.driver.late}, 0.5)),
		collector.Of("late_arrival_p99_ms", nearestRank([]*sampler{&x.driver.late}, 0.99)),
	}
	if len(x.pools) > 0 {
		fields = append(fields, x.passFields()...)
	}
	if len(x.failed) > 0 {
		fields = append(fields, collector.Of("errors", listFailures(x.failed)))
	}
	result := &harness.Result{Collector: x.Collector, Partial: cause != nil, Cause: cause, Cancelled: x.cancelled, Failed: x.failed}
	extra := append(x.AddRejected(result, false), collector.Of("online", fields))
	result.Report = x.Report(wall, extra...)
	return result
}

// mostListed is the maximum number of failures in a report.
const mostListed = 100

// listFailures returns the errors of failures by the position of the request.
func listFailures(all []harness.Failure) []collector.Field {
	fields := make([]collector.Field, 0, min(len(all), mostListed))
	for _, f := range all[:cap(fields)] {
		fields = append(fields, collector.Of(f.Place, f.Err.Error()))
	}
	return fields
}

// Summary returns a line about the requests that did not complete, "" if there are none.
func Summary(failed []harness.Failure) string {
	if len(failed) == 0 {
		return ""
	}
	f := &failed[0]
	text := fmt.Sprintf("%s: %v", f.Place, f.Err)
	if n := len(failed) - 1; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("%d requests did not complete: %s", len(failed), text)
}

// passFields returns the report fields about the timekeeping of workers.
func (x *run) passFields() []collector.Field {
	var overshoot []*sampler
	var t timekeeping
	for _, p := range x.pools {
		for _, w := range p.workers {
			overshoot = append(overshoot, &w.overshoot)
			t.passes += float64(w.lengths.seen)
			t.length += w.lengths.sum
			t.overshoot += w.overshoot.sum
			t.slipped = max(t.slipped, w.slipped)
		}
	}
	t.timeouts = x.instants.late
	t.duration = float64(x.clock.Now())
	bound := t.passes > 0 && t.length/t.passes < timerBound
	if bound {
		x.warnf("passes take %.3f ms on average, must be at least %g for latencies above the resolution of the machine's timers", t.length/t.passes, timerBound)
	}
	reason := t.findFault()
	if reason != "" {
		x.warnf("the timings cannot be trusted: %s: the machine is too busy, or too slow, for this number of workers", reason)
	}
	return []collector.Field{
		collector.Of("pass_overshoot_p50_ms", nearestRank(overshoot, 0.5)),
		collector.Of("pass_overshoot_p99_ms", nearestRank(overshoot, 0.99)),
		collector.Of("slipped_ms", t.slipped),
		collector.Of("barrier_timeouts", t.timeouts),
		collector.Of("timer_bound", bound),
		collector.Of("trusted", reason == ""),
	}
}

// timekeeping is the accuracy of the workers' times.
type timekeeping struct {
	passes, length float64 // number of passes, and their sum in ms
	overshoot      float64 // sum of the delays of their ends, in ms
	slipped        float64 // maximum of Worker.slipped over the workers, in ms
	duration       float64 // ms
	timeouts       int     // waits at an instant that timed out
}

// Above these shares, timings depend more on the machine than on the cluster.
const (
	mostOvershoot = 0.03 // of the duration of passes
	mostSlipped   = 0.01 // of the duration
)

// findFault returns the reason why timings are not reliable, "" if they are.
func (t *timekeeping) findFault() string {
	switch {
	case t.passes == 0:
		return ""
	case t.overshoot > mostOvershoot*t.length:
		return fmt.Sprintf("passes of %.2f ms ended %.2f ms late on average, must be at most %g %% of that", t.length/t.passes, t.overshoot/t.passes, 100*mostOvershoot)
	case t.slipped > mostSlipped*t.duration:
		return fmt.Sprintf("a worker fell behind by %.0f ms in %.0f ms, must be at most %g %%", t.slipped, t.duration, 100*mostSlipped)
	case t.timeouts > 0:
		return fmt.Sprintf("%d waits for other events of the same instant took more than %v, must be none", t.timeouts, patience)
	}
	return ""
}

// sampler keeps a limited number of evenly spaced values of a series.
type sampler struct {
	values []float64
	stride int // one value in this many is kept; 0: 1
	seen   int
	sum    float64
}

// maxSamples is the number of values at which a sampler drops every other value.
const maxSamples = 1 << 15

func (s *sampler) add(v float64) {
	s.sum += v
	s.seen++
	if (s.seen-1)%max(s.stride, 1) != 0 {
		return
	}
	s.values = append(s.values, v)
	if len(s.values) < maxSamples {
		return
	}
	for i := range s.values[:maxSamples/2] {
		s.values[i] = s.values[2*i]
	}
	s.values, s.stride = s.values[:maxSamples/2], 2*max(s.stride, 1)
}

// nearestRank returns the nearest-rank quantile q of the values of all samplers, 0 if there are none. Each kept value
// has the same weight.
func nearestRank(all []*sampler, q float64) float64 {
	var values []float64
	for _, s := range all {
		values = append(values, s.values...)
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(float64(float64(len(values)-1)*q)+0.5)]
}
