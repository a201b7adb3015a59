package router

import (
	"cmp"
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Metrics is the report of a worker.
type Metrics struct {
	Running, Waiting int32   // numbers of requests
	KV               float64 // share of its KV blocks that requests hold, 0 to 1
}

// Scrape is the interval at which the router reads the metrics of its workers, in ms. Between two reads, the router
// uses the latest metrics.
const Scrape sim.Time = 50

// Lag is the age of the metrics of a worker at a gate, in ms. The front end of a server publishes metrics late,
// because it is busy with the requests that the gate releases.
const Lag sim.Time = 100

// Gate holds requests while the workers are saturated. Of the held requests, the one with the smallest Priority is
// released first, then the earliest arrival.
//
// By metrics, saturation is the mean over the workers of a maximum: waiting requests divided by Queue, or KV usage
// divided by KV. If Requests or Tokens is set, saturation is computed from the requests that were sent. Saturation
// from sent requests is the mean over the workers of their requests divided by Requests, or of their tokens divided
// by Tokens. If both Requests and Tokens are set, saturation is the mean of the larger quotient.
type Gate struct {
	Queue float64  // requests, > 0
	KV    float64  // share of KV blocks, > 0
	Each  sim.Time // ms between two releases, > 0

	// Unseen adds requests to the waiting requests of a worker if they were sent to it and its metrics do not show
	// them yet.
	Unseen bool `json:",omitempty" record:"omitzero"`

	Requests float64 `json:",omitempty" record:"omitzero"` // unfinished requests per worker
	Tokens   float64 `json:",omitempty" record:"omitzero"` // prompt tokens to compute per worker

	Ceilings *Ceilings `json:",omitempty"` // nil: 1 for every priority
}

// Ceilings are the saturations from which the requests of a priority are held. The priority p of a request is the
// priority -p of llm-d, where the highest priority is the most urgent.
type Ceilings struct {
	// Least and Most are the ceilings of the least and the most urgent priority seen so far, 0 to 1. The ceilings of
	// priorities between them are evenly spaced by rank, or by value if ByValue is set.
	Least   float64 `json:",omitempty"`
	Most    float64 `json:",omitempty"`
	ByValue bool    `json:",omitempty"`
	// Of are ceilings for given priorities, ascending by priority, instead of Least and Most. Other priorities have
	// the ceiling 0.
	Of []Ceiling `json:",omitempty"`
}

// Ceiling is the ceiling of one priority, 0 to 1.
type Ceiling struct {
	Priority int32
	Share    float64
}

// ReadsMetrics reports whether g uses the metrics of workers.
func (g *Gate) ReadsMetrics() bool { return g.Requests == 0 && g.Tokens == 0 }

// ceiling returns the ceiling of a priority. seen is the priorities seen so far, ascending, and includes it.
func (c *Ceilings) ceiling(priority int32, seen []int32) float64 {
	switch {
	case c == nil:
		return 1
	case c.Of != nil:
		i, ok := slices.BinarySearchFunc(c.Of, priority, func(x Ceiling, p int32) int { return cmp.Compare(x.Priority, p) })
		if !ok {
			return 0
		}
		return c.Of[i].Share
	}
	from, to, at := 0, len(seen)-1, slices.Index(seen, priority)
	if c.ByValue {
		from, to, at = int(seen[0]), int(seen[to]), int(priority)
	}
	if from == to {
		return c.Most
	}
	return c.Most - float64(float64(at-from)*(c.Most-c.Least))/float64(to-from)
}

// meters is the state of the metrics of workers in a dispatcher.
type meters struct {
	reports [][]report // of each worker, oldest first
	read    [][3]int32 // by worker and signal: number of reports that have been read
	idle    []bool
	next    sim.Time // earliest instant of the next release
	shut    bool     // a gate without metrics was shut at its latest check
	// priorities is the priorities of all requests so far, ascending. priorities is used if the gate has ceilings.
	priorities []int32
}

// report is the metrics that a worker reported at an instant.
type report struct {
	at      sim.Time
	metrics Metrics
}

// Metered reports whether the dispatcher uses workers' metrics.
func (d *Dispatcher) Metered() bool { return d.kept.Metrics }

// Measure records the metrics of worker w from now on. Measure first places the requests that the gate has released
// since the last call.
func (d *Dispatcher) Measure(now sim.Time, w sim.WorkerID, m Metrics, dst []Placement) ([]Placement, error) {
	if !d.kept.Metrics || int(w) >= len(d.meters.reports) {
		return dst, nil
	}
	dst, err := d.placeReleased(now, dst)
	if err != nil {
		return dst, err
	}
	d.clock = now
	d.readMetrics(now)
	d.meters.reports[w] = append(d.meters.reports[w], report{now, m})
	// no worker would report later
	if d.meters.idle[w] = m.Running == 0 && m.Waiting == 0; d.meters.idle[w] && d.needs.Gate != nil && d.allIdle() {
		for _, other := range d.workers.ids {
			d.seen.Metrics[other] = Metrics{}
		}
		for d.needs.Gate != nil && len(d.queue.heap) > 0 && err == nil && (len(d.workers.ids) > 0 || !d.patient) {
			dst, err = d.placeFirst(now, dst)
		}
	}
	return dst, err
}

// allIdle reports whether no worker has work. Idle workers do not report.
func (d *Dispatcher) allIdle() bool {
	for _, w := range d.workers.ids {
		if !d.meters.idle[w] {
			return false
		}
	}
	return true
}

// readMetrics shows the policy the metrics that are known at now, given the ages of signals.
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
			continue // moving the remainder costs more than keeping it
		}
		d.meters.reports[w] = append(all[:0], all[least:]...)
		for i := range read {
			read[i] -= least
		}
	}
}

// isShut reports whether the gate holds requests of a priority, by the known facts.
func (d *Dispatcher) isShut(priority int32) bool {
	n := float64(len(d.workers.ids))
	if n == 0 {
		return true
	}
	g := d.needs.Gate
	requests, tokens, larger := 0.0, 0.0, 0.0
	for _, w := range d.workers.ids {
		if g.ReadsMetrics() {
			larger += d.strain(w)
			continue
		}
		r, t := float64(d.seen.Running[w]), float64(d.seen.Tokens[w])
		requests, tokens = requests+r, tokens+t
		larger += max(shareOf(r, g.Requests), shareOf(t, g.Tokens))
	}
	limit := g.Ceilings.ceiling(priority, d.meters.priorities) * n
	switch {
	case g.ReadsMetrics(), g.Requests > 0 && g.Tokens > 0:
		return larger >= limit
	case g.Tokens > 0:
		return tokens/g.Tokens >= limit
	}
	return requests/g.Requests >= limit
}

// strain returns the saturation of a worker by its metrics.
func (d *Dispatcher) strain(w sim.WorkerID) float64 {
	m, g := &d.seen.Metrics[w], d.needs.Gate
	waiting := m.Waiting
	if g.Unseen {
		waiting += max(0, d.seen.Running[w]-m.Waiting-m.Running)
	}
	return max(float64(waiting)/g.Queue, m.KV/g.KV)
}

// shareOf returns x/most, 0 if most is 0.
func shareOf(x, most float64) float64 {
	if most == 0 {
		return 0
	}
	return x / most
}

// placeReleased places the held requests that the gate has released by now. If the gate is shut, a gate by metrics is
// checked again at the next read. A gate without metrics is checked again at the next call.
func (d *Dispatcher) placeReleased(now sim.Time, dst []Placement) ([]Placement, error) {
	if d.needs.Gate == nil {
		return dst, nil
	}
	var err error
	t := &d.meters.next
	if d.meters.shut {
		*t, d.meters.shut = max(*t, now), false
	}
	for *t <= now && len(d.queue.heap) > 0 && err == nil && !d.meters.shut {
		d.readMetrics(*t)
		if d.isShut(d.queue.heap[0].Value.request.Priority) {
			if d.meters.shut = !d.needs.Gate.ReadsMetrics(); !d.meters.shut {
				*t = Scrape * (1 + sim.Time(math.Floor(float64(*t/Scrape))))
			}
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

// placeFirst places the first held request, with its cached blocks at that instant.
func (d *Dispatcher) placeFirst(now sim.Time, dst []Placement) ([]Placement, error) {
	q := d.queue.pop(&d.overlap)
	d.overlap.clear()
	d.readSignals(now)
	if err := d.matchCaches(now, q); err != nil {
		return dst, err
	}
	return d.placeRequest(q, dst)
}

// routeGated places a request if the gate is open and no request waits before it. Otherwise routeGated holds the
// request.
func (d *Dispatcher) routeGated(now sim.Time, q *sim.Request, dst []Placement) ([]Placement, error) {
	dst, err := d.placeReleased(now, dst)
	if err != nil {
		return dst, err
	}
	d.readSignals(now)
	if err := d.matchCaches(now, q); err != nil {
		return dst, err
	}
	if d.needs.Gate.Ceilings != nil {
		if i, ok := slices.BinarySearch(d.meters.priorities, q.Priority); !ok {
			d.meters.priorities = slices.Insert(d.meters.priorities, i, q.Priority)
		}
	}
	behind := len(d.queue.heap) > 0 && (d.needs.Gate.Ceilings == nil || q.Priority >= d.queue.heap[0].Value.request.Priority)
	if behind || d.isShut(q.Priority) {
		return dst, d.holdRequest(now, q)
	}
	return d.placeRequest(q, dst)
}

// byClass is the weight of a step of priority relative to a second of waiting.
const byClass = 1e9
