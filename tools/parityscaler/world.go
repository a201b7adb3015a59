package main

import (
	"math"
	"math/rand/v2"

	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/tools/draw"
)

// world is a cluster that serves a random load with its current workers.
type world struct {
	r       *rand.Rand
	config  autoscale.Config
	ticks   int
	now     sim.Time
	workers []worker
	leaving []sim.Time // time at which each leaving worker is gone
	boot    sim.Time   // time from the decision until the server runs
	warm    sim.Time   // time from then until the first scrape
	late    bool       // scrapes arrive one tick late
	last    autoscale.Scrape
	dark    int     // number of following ticks without a scrape
	load    float64 // share of the load of a pool that meets its target at its maximum size
}

// worker is a wanted worker.
type worker struct {
	born sim.Time
	id   sim.WorkerID
}

// newWorld draws a world.
func newWorld(kind autoscale.Kind, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 36))
	w := &world{r: r, config: drawConfig(r, kind), ticks: 20 + r.IntN(40), late: r.IntN(3) == 0, load: r.Float64()}
	w.boot = second * sim.Time(draw.Pick(r, 0, 10, 30, 45, 120))
	w.warm = second * sim.Time(draw.Pick(r, 0, 0, 5, 20, 60))
	w.scale(max(w.config.Min, 1))
	for i := range w.workers {
		w.workers[i].born = -1000 * second
	}
	w.now = -w.config.Sync
	return w
}

// scale sets the number of workers to n. scale removes the latest workers first.
func (w *world) scale(n int) {
	for len(w.workers) > n {
		w.workers = w.workers[:len(w.workers)-1]
		w.leaving = append(w.leaving, w.now+second*sim.Time(w.r.IntN(60)))
	}
	for len(w.workers) < n {
		w.workers = append(w.workers, worker{w.now, sim.WorkerID(w.r.Uint32())})
	}
}

// tick moves to the next tick, and returns the signals.
func (w *world) tick() *autoscale.Signals {
	w.now += w.config.Sync
	if w.r.IntN(50) == 0 { // a user changes the number of workers
		w.scale(w.r.IntN(w.config.Max + 3))
	}
	w.changeLoad()
	left := w.leaving[:0]
	for _, until := range w.leaving {
		if until > w.now {
			left = append(left, until)
		}
	}
	w.leaving = left
	s := &autoscale.Signals{Now: w.now, Workers: len(w.workers), Leaving: len(w.leaving)}
	scrape := w.scrape()
	if w.late {
		scrape, w.last = w.last, scrape
	}
	if w.r.IntN(30) == 0 {
		w.dark = w.r.IntN(8)
	}
	if w.dark--; w.dark >= 0 {
		scrape = autoscale.Scrape{}
	}
	there := map[sim.WorkerID]bool{}
	runs := 0
	for _, k := range w.workers {
		if there[k.id] = true; w.now >= k.born+w.boot {
			runs++
		}
	}
	s.Scrape = scrape.Keep(func(id sim.WorkerID) bool { return there[id] })
	s.Missing = max(runs-s.Ready, 0)
	s.Starting = len(w.workers) - s.Ready
	return s
}

// changeLoad changes the load. Most changes are small, and some set a new random load.
func (w *world) changeLoad() {
	switch w.r.IntN(12) {
	case 0:
		w.load = 1.5 * w.r.Float64()
	case 1:
		w.load = 0
	default:
		if w.load == 0 && w.r.IntN(2) == 0 { // stays idle for another tick
			return
		}
		w.load = max(w.load+0.2*(w.r.Float64()-0.5), 0)
	}
}

// scrape reads all warm workers, except some that do not answer.
func (w *world) scrape() autoscale.Scrape {
	s := autoscale.Scrape{At: w.now + 1}
	ask := func(m autoscale.Metric) float64 { // sum of a metric over the pool, in proportion to target and load
		for _, t := range w.config.Targets {
			if t.Metric == m {
				return roundShare(t.Value * float64(w.config.Max) * w.load * (0.7 + 0.6*w.r.Float64()))
			}
		}
		return 0
	}
	var ready []sim.WorkerID
	for _, k := range w.workers {
		if w.now >= k.born+w.boot+w.warm && w.r.IntN(25) > 0 {
			ready = append(ready, k.id)
		}
	}
	share := func(sum float64) int { // share of one worker in whole requests
		if sum == 0 {
			return 0
		}
		x := sum / float64(max(len(ready), 1))
		return int(x) + w.r.IntN(2)*w.r.IntN(3)
	}
	waiting, running, both, kv := ask(autoscale.Waiting), ask(autoscale.Running), ask(autoscale.InFlight), ask(autoscale.KVUsage)
	for _, id := range ready {
		g := autoscale.Gauge{Worker: id, Waiting: share(waiting), Running: share(running), KV: roundShare(kv / float64(len(ready)) * (0.9 + 0.2*w.r.Float64()))}
		if w.sees(autoscale.InFlight) {
			g.Running = share(both)
		}
		if w.load == 0 && w.r.IntN(3) > 0 {
			g = autoscale.Gauge{Worker: id}
		}
		s.Add(g)
	}
	s.Held = int(ask(autoscale.Held))
	s.Rate, s.InputRate, s.OutputRate = ask(autoscale.Rate), ask(autoscale.InputRate), ask(autoscale.OutputRate)
	return s
}

// roundShare rounds to a tenth of the unit of metrics adapters.
func roundShare(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// sees reports whether a metric is among the targets.
func (w *world) sees(m autoscale.Metric) bool {
	for _, t := range w.config.Targets {
		if t.Metric == m {
			return true
		}
	}
	return false
}
