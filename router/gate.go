package router

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// Metrics is what a worker reports of itself.
type Metrics struct {
	Running, Waiting int32   // requests
	KV               float64 // share of its KV blocks that requests hold, 0 to 1
}

// Scrape is how often the router reads the metrics of its workers; until the next time it
// knows the ones it read last.
const Scrape sim.Time = 50

// Lag is how old the metrics of a worker are when they are read before a gate: a server shows
// what its scheduler did once its front end has handled it, which is busy with all that the
// gate lets go at once.
const Lag sim.Time = 100

// Gate holds requests back while the workers, by their metrics, are saturated: on average
// over them, the larger of their waiting requests over Queue and their KV usage over KV is at
// least 1. Of those that are held the least Priority goes first, then who came first.
type Gate struct {
	Queue float64  // requests, > 0
	KV    float64  // share of KV blocks, > 0
	Each  sim.Time // between two requests that are let go, > 0
}

// meters is what a dispatcher knows of the metrics of its workers.
type meters struct {
	reports [][]report // of each worker, that have not been read
	read    [][3]int32 // of those, how many have been, by signal
	idle    []bool
	next    sim.Time // when the next held request may be let go
}

// report is what a worker reported at an instant.
type report struct {
	at      sim.Time
	metrics Metrics
}

// Metered reports whether workers' metrics are read.
func (d *Dispatcher) Metered() bool { return d.kept.Metrics }

// Measure takes in what worker w reports from now on. Requests that were let go meanwhile are
// placed.
func (d *Dispatcher) Measure(now sim.Time, w sim.WorkerID, m Metrics, dst []Placement) ([]Placement, error) {
	if !d.kept.Metrics || int(w) >= len(d.meters.reports) {
		return dst, nil
	}
	dst, err := d.letGo(now, dst)
	if err != nil {
		return dst, err
	}
	d.clock = now
	d.readMetrics(now)
	d.meters.reports[w] = append(d.meters.reports[w], report{now, m})
	if d.meters.idle[w] = m.Running == 0 && m.Waiting == 0; d.meters.idle[w] && d.needs.Gate != nil && d.allIdle() { // nothing would be reported any more
		for _, other := range d.workers.ids {
			d.seen.Metrics[other] = Metrics{}
		}
		for d.needs.Gate != nil && len(d.queue.heap) > 0 && err == nil && (len(d.workers.ids) > 0 || !d.patient) {
			dst, err = d.placeFirst(now, dst)
		}
	}
	return dst, err
}

// allIdle reports whether no worker has anything to do, so that nobody will report any more.
func (d *Dispatcher) allIdle() bool {
	for _, w := range d.workers.ids {
		if !d.meters.idle[w] {
			return false
		}
	}
	return true
}

// readMetrics shows the policy the metrics that were there when they were read last, by now.
func (d *Dispatcher) readMetrics(now sim.Time) {
	var asOf [3]sim.Time
	for i := range asOf {
		asOf[i] = d.seen.ages[i].asOf(now)
	}
	for w, all := range d.meters.reports {
		if len(all) == 0 {
			continue
		}
		read, show := &d.meters.read[w], &d.seen.Metrics[w]
		for n := &read[atRunning]; int(*n) < len(all) && all[*n].at <= asOf[atRunning]; *n++ {
			show.Running = all[*n].metrics.Running
		}
		for n := &read[atWaiting]; int(*n) < len(all) && all[*n].at <= asOf[atWaiting]; *n++ {
			show.Waiting = all[*n].metrics.Waiting
		}
		for n := &read[atKVUsage]; int(*n) < len(all) && all[*n].at <= asOf[atKVUsage]; *n++ {
			show.KV = all[*n].metrics.KV
		}
		least := min(read[atRunning], read[atWaiting], read[atKVUsage])
		if int(least) < (len(all)+1)/2 {
			continue // to move the rest would take longer than to keep them
		}
		d.meters.reports[w] = append(all[:0], all[least:]...)
		for i := range read {
			read[i] -= least
		}
	}
}

// isSaturated reports whether the workers are, as far as is known.
func (d *Dispatcher) isSaturated() bool {
	if len(d.workers.ids) == 0 {
		return true
	}
	total := 0.0
	for _, w := range d.workers.ids {
		m := &d.seen.Metrics[w]
		total += max(float64(m.Waiting)/d.needs.Gate.Queue, m.KV/d.needs.Gate.KV)
	}
	return total >= float64(len(d.workers.ids))
}

// letGo places the held requests that the gate has let go by now.
func (d *Dispatcher) letGo(now sim.Time, dst []Placement) ([]Placement, error) {
	if d.needs.Gate == nil {
		return dst, nil
	}
	var err error
	for t := &d.meters.next; *t <= now && len(d.queue.heap) > 0 && err == nil; {
		d.readMetrics(*t)
		if d.isSaturated() {
			*t = Scrape * (1 + sim.Time(math.Floor(float64(*t/Scrape))))
			continue
		}
		dst, err = d.placeFirst(*t, dst)
		*t += d.needs.Gate.Each
	}
	if len(d.queue.heap) == 0 {
		d.meters.next = max(d.meters.next, now)
	}
	return dst, err
}

// placeFirst lets the first of the held requests go, by what is cached then.
func (d *Dispatcher) placeFirst(now sim.Time, dst []Placement) ([]Placement, error) {
	q := d.queue.pop(&d.overlap)
	d.overlap.clear()
	d.readSignals(now)
	if err := d.matchCaches(now, q); err != nil {
		return dst, err
	}
	return d.placeRequest(q, dst)
}

// routeGated places a request where the gate is open and nobody waits before it, and holds it
// back otherwise.
func (d *Dispatcher) routeGated(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error) {
	dst, err := d.letGo(now, dst)
	if err != nil {
		return dst, err
	}
	d.readSignals(now)
	if err := d.matchCaches(now, q); err != nil {
		return dst, err
	}
	if len(d.queue.heap) > 0 || d.isSaturated() {
		return dst, d.holdRequest(now, q)
	}
	return d.placeRequest(q, dst)
}

// byClass is how much more a step of priority counts than a second of waiting.
const byClass = 1e9
