package offline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// ready makes started workers active, unless they were removed during their startup.
func (l *literal) ready() (changed bool, err error) {
	for {
		e, ok := l.due(workerReady)
		if !ok {
			return changed, nil
		}
		w := e.worker
		if w.deleted {
			continue
		}
		changed, w.starting = true, false
		if err := w.pool.router.AddWorker(w.id); err != nil {
			return true, err
		}
		placed, err := w.pool.router.Drain(l.now, nil)
		if err := l.dispatch(w.pool, placed, err); err != nil {
			return true, err
		}
	}
}

// cleanUp deletes a removed worker after its last request.
func (w *literalWorker) cleanUp() {
	if w.removing && !w.busy && w.inFlight == 0 && w.core.Load() == 0 {
		w.deleted = true
	}
}

// scale resizes the pools: the entry pool and its router first.
func (l *literal) scale(entry, decode int) error {
	placed := make([][]router.Placement, len(l.pools))
	for i, target := range []int{entry, decode}[:len(l.pools)] {
		if target == engines.KeepSize {
			continue
		}
		p := l.pools[i]
		if err := l.setTarget(p, target); err != nil {
			return err
		}
		var err error
		if placed[i], err = p.router.Drain(l.now, nil); err != nil {
			return err
		}
	}
	for i, p := range l.pools {
		if err := l.dispatch(p, placed[i], nil); err != nil {
			return err
		}
	}
	return nil
}

// setTarget starts or removes workers of a pool until it has the target size.
func (l *literal) setTarget(p *literalPool, target int) error {
	var starting, active []*literalWorker // highest id first
	for _, w := range slices.Backward(p.workers) {
		switch {
		case w.starting:
			starting = append(starting, w)
		case !w.removing && !w.deleted:
			active = append(active, w)
		}
	}
	effective := len(active) + len(starting)
	for ; effective < target; effective++ {
		w, err := p.create()
		if err != nil {
			return err
		}
		if s := p.stage.Pool.Engine.StartupSeconds; s > 0 {
			w.starting = true
			l.push(literalEvent{at: l.now + sim.Time(s*1000.0), kind: workerReady, worker: w})
		} else if err := p.router.AddWorker(w.id); err != nil {
			return err
		}
	}
	for ; effective > target && len(starting) > 0; effective-- {
		starting[0].starting, starting[0].deleted = false, true
		starting = starting[1:]
	}
	for ; effective > target; effective-- {
		w := active[0]
		active = active[1:]
		w.removing = true
		if err := p.router.RemoveWorker(w.id); err != nil {
			return err
		}
	}
	for _, w := range p.workers {
		w.cleanUp()
	}
	return nil
}

// sizes counts the active workers of a pool, and all its workers.
func (p *literalPool) sizes() (active, total int) {
	for _, w := range p.workers {
		if !w.deleted {
			total++
			if !w.starting && !w.removing {
				active++
			}
		}
	}
	return active, total
}

// literalTraffic is the window of traffic for planners, as lists of samples.
type literalTraffic struct {
	from      sim.Time
	isl, osl  []float64
	ttft, itl []float64
	reuse     []float64
}

// request adds the samples of a completed request.
func (n *literalTraffic) request(l *literal, id sim.RequestID) {
	q := l.Requests.Get(int(id))
	n.isl, n.osl = append(n.isl, float64(q.InputTokens)), append(n.osl, float64(q.OutputTokens))
	ttft, itl, _ := l.Collector.Latencies(id)
	if ttft > 0 {
		n.ttft = append(n.ttft, float64(ttft))
	}
	if itl > 0 {
		n.itl = append(n.itl, float64(itl))
	}
}

// drain returns the traffic of the window and starts the next window.
func (n *literalTraffic) drain(now sim.Time) Traffic {
	mean := func(samples []float64) float64 {
		sum := 0.0
		for _, v := range samples {
			sum += v
		}
		return sum / max(1, float64(len(samples)))
	}
	t := Traffic{
		Seconds: float64(now-n.from) / 1000.0, Requests: len(n.isl), MeanISL: mean(n.isl), MeanOSL: mean(n.osl),
		MeanTTFT: sim.Time(mean(n.ttft)), MeanITL: sim.Time(mean(n.itl)), MeanReuse: mean(n.reuse),
	}
	*n = literalTraffic{from: now}
	return t
}

// size draws a target size of a pool.
func (d draw) size() int { return pick(d, 1, 1, 2, 3, 4, 5, engines.KeepSize) }

// elastic draws startup times of workers.
func (d draw) elastic(x *trial) {
	for i := range x.cfg.Pools {
		x.cfg.Pools[i].Engine.StartupSeconds = pick(d, 0.0, 0.001, 0.002, 0.0035)
	}
}

// TestPlannedScalingEqualsLiteral compares the cluster with the literal model while planned sizes add and remove
// workers. Runs of passes and events at equal instants do not change the result.
func TestPlannedScalingEqualsLiteral(t *testing.T) {
	each(t, 1200, func(t *testing.T, d draw, x *trial, text string) bool {
		d.elastic(x)
		at := sim.Time(0)
		for range 1 + d.IntN(5) {
			at += pick(d, sim.Time(0), 1, 2, 3.5, 10)
			e := engines.ScaleEvent{At: at, Workers: d.size(), Decode: engines.KeepSize}
			if x.cfg.Disaggregated() {
				e.Decode = d.size()
			}
			x.cfg.Scale = append(x.cfg.Scale, e)
		}
		a, b := x.run(byLiteral), x.run(byCluster)
		if diff := difference(a, b); diff != "" {
			t.Fatalf("the literal model and the cluster: %s\n%s%+v", diff, x.show(text), x.cfg.Scale)
		}
		if diff := x.broken(b); diff != "" {
			t.Fatalf("%s\n%s%+v", diff, x.show(text), x.cfg.Scale)
		}
		return a.err == nil
	})
}

// TestStepsEqualLiteral compares a planner that reads and scales the cluster at any instant with the same planner on
// the literal model. The planners of both models see the same clock, workers and result.
func TestStepsEqualLiteral(t *testing.T) {
	each(t, 1200, func(t *testing.T, d draw, x *trial, text string) bool {
		if x.cfg.Admission.Mode == loadgen.Concurrency {
			return false
		}
		d.elastic(x)
		x.cfg.steps = true
		var l *literal
		var c *cluster
		x.run(func(r *run, j *journal) (_ driver, err error) {
			l, err = newLiteral(r, j)
			return idle, err
		})
		x.run(func(r *run, _ *journal) (_ driver, err error) {
			c, err = newCluster(r)
			return idle, err
		})
		if l == nil || c == nil {
			return false
		}
		var log []string
		until := sim.Time(0)
		for step := range 200 {
			until += pick(d, sim.Time(0), 1, 2, 5, 100)
			a, b := l.advance(until), c.advanceTo(t.Context(), until)
			log = append(log, "advance to "+strconv.FormatFloat(float64(until), 'g', -1, 64))
			if diff := differentErrors(a, b); diff != "" {
				t.Fatalf("%s\n%s%q", diff, x.show(text), log)
			}
			if a != nil {
				return false
			}
			if diff := differentStates(l, c); diff != "" {
				t.Fatalf("step %d: %s\n%s%q", step, diff, x.show(text), log)
			}
			if a, b := l.traffic.drain(l.now), c.window.Close(c.now); a != b {
				t.Fatalf("step %d: traffic %+v and %+v\n%s%q", step, a, b, x.show(text), log)
			}
			if c.isIdle() {
				return step > 1
			}
			if d.oneIn(2) {
				entry, decode := d.size(), d.size()
				log = append(log, fmt.Sprintf("scale to %d and %d", entry, decode))
				a, b := l.scale(entry, decode), c.fleet.scalePools([]int{entry, decode}[:len(c.pools)])
				if a != nil || b != nil {
					t.Fatalf("errors %v and %v", a, b)
				}
			}
		}
		return true
	})
}

// idle drives nothing: the test moves the clock.
func idle(context.Context) error { return nil }

func differentStates(l *literal, c *cluster) string {
	state := func(now sim.Time, sizes ...int) string { return fmt.Sprintf("at %v: %v", float64(now), sizes) }
	var x, y []int
	for i := range l.pools {
		active, total := l.pools[i].sizes()
		x = append(x, active, total)
		active, total = c.pools[i].countWorkers()
		y = append(y, active, total)
	}
	if a, b := state(l.now, x...), state(c.now, y...); a != b {
		return fmt.Sprintf("clock, active and all workers: %s and %s", a, b)
	}
	for i := range min(l.Collector.Len(), c.Collector.Len()) {
		if a, b := recordOf(l.run, i), recordOf(c.run, i); a.Worker != b.Worker || a.Arrival != b.Arrival {
			return fmt.Sprintf("request %d: %+v and %+v", i, a, b)
		}
	}
	return ""
}

func recordOf(r *run, i int) (out collector.Record) {
	for id, q := range r.Collector.Requests() {
		if int(id) == i {
			out = *q
		}
	}
	return out
}
