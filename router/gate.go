package router

import (
	"cmp"
	"math"
	"slices"

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

// Lag is the age of the metrics of a worker at a gate: the front end of a server publishes them late, since it is busy
// with the requests that the gate releases.
const Lag sim.Time = 100

// Gate holds requests back while the workers are saturated. Of the held requests the least
// Priority goes first, then the one that came first.
//
// By metrics, saturation is the mean over the workers of the larger of their waiting requests over Queue and their KV
// usage over KV. By sent requests, if Requests or Tokens are set, saturation is the number of requests over Requests
// for each worker, or of tokens over Tokens for each worker; with both the mean over the workers of the larger share.
type Gate struct {
	Queue float64  // requests, > 0
	KV    float64  // share of KV blocks, > 0
	Each  sim.Time // between two requests that are let go, > 0

	// Unseen adds to the waiting requests the ones that were sent to the worker and that its
	// metrics do not show yet.
	Unseen bool `json:",omitempty" record:"omitzero"`

	Requests float64 `json:",omitempty" record:"omitzero"` // requests of a worker, not finished
	Tokens   float64 `json:",omitempty" record:"omitzero"` // prompt tokens of a worker still to compute

	Ceilings *Ceilings `json:",omitempty"` // nil: 1 for every priority
}

// Ceilings are the saturation from which the requests of a priority are held back. The priority p of a
// request is the priority -p of llm-d, where the most urgent is the highest.
type Ceilings struct {
	// Least and Most are the ceilings of the least and the most urgent of the priorities seen so far,
	// 0 to 1. Those between are evenly spaced by rank or, with ByValue, by their value.
	Least   float64 `json:",omitempty"`
	Most    float64 `json:",omitempty"`
	ByValue bool    `json:",omitempty"`
	// Of are given ceilings instead of those, ascending by priority; 0 for one that is not there.
	Of []Ceiling `json:",omitempty"`
}

// Ceiling is that of one priority, 0 to 1.
type Ceiling struct {
	Priority int32
	Share    float64
}

// ReadsMetrics reports whether g reads what workers report.
func (g *Gate) ReadsMetrics() bool { return g.Requests == 0 && g.Tokens == 0 }

// ceiling returns the ceiling of a priority, one of those seen, which ascend.
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

// meters is what a dispatcher knows of the metrics of its workers.
type meters struct {
	reports [][]report // of each worker, that have not been read
	read    [][3]int32 // of those, how many have been, by signal
	idle    []bool
	next    sim.Time // when the next held request may be let go
	shut    bool     // a gate without metrics was, when it was asked last
	// priorities of all requests so far, ascending, where ceilings differ
	priorities []int32
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

// allIdle reports whether no worker has work, so that no worker will report any more.
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

// isShut reports whether the gate holds back requests of a priority, as far as is known.
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

// strain returns how saturated a worker is by its metrics.
func (d *Dispatcher) strain(w sim.WorkerID) float64 {
	m, g := &d.seen.Metrics[w], d.needs.Gate
	waiting := m.Waiting
	if g.Unseen {
		waiting += max(0, d.seen.Running[w]-m.Waiting-m.Running)
	}
	return max(float64(waiting)/g.Queue, m.KV/g.KV)
}

// shareOf returns x of most, 0 if there is no most.
func shareOf(x, most float64) float64 {
	if most == 0 {
		return 0
	}
	return x / most
}

// letGo places the held requests that the gate has let go by now. A gate by metrics is asked again when
// they are read, another one at the next call.
func (d *Dispatcher) letGo(now sim.Time, dst []Placement) ([]Placement, error) {
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

// routeGated places a request where the gate is open and no request waits before it, and holds it
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

// byClass is how much more a step of priority counts than a second of waiting.
const byClass = 1e9
