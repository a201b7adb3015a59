package harness

import (
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Traffic is the traffic of a cluster in a time window (docs/rules/harness.md, Stepping). A mean without samples is
// 0.
type Traffic struct {
	Seconds   float64 // length of the window
	Requests  int     // number of requests that finished in the window
	MeanISL   float64 // prompt tokens per finished request
	MeanOSL   float64 // requested output tokens per finished request
	MeanTTFT  sim.Time
	MeanITL   sim.Time
	MeanReuse float64 // share of a prompt's blocks that are cached on the chosen worker, as known to the router
}

// TrafficWindow adds up the traffic since its start.
type TrafficWindow struct {
	from     sim.Time
	requests int
	isl, osl int
	ttft     mean
	itl      mean
	reuse    mean
}

// mean adds up samples in order.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) {
	m.sum += v
	m.n++
}

func (m *mean) value() float64 {
	if m.n == 0 {
		return 0
	}
	return m.sum / float64(m.n)
}

// AddFinished adds a finished request. known reports whether its latencies are known.
func (w *TrafficWindow) AddFinished(q *sim.Request, ttft, itl sim.Time, known bool) {
	w.requests++
	w.isl += q.InputTokens
	w.osl += q.OutputTokens
	if known && ttft > 0 {
		w.ttft.add(float64(ttft))
	}
	if known && itl > 0 {
		w.itl.add(float64(itl))
	}
}

// AddPlaced adds a router's decision.
func (w *TrafficWindow) AddPlaced(p *router.Placement) {
	if p.Blocks > 0 {
		w.reuse.add(float64(p.Overlap) / float64(p.Blocks))
	}
}

// Close returns the traffic of the window and starts the next window.
func (w *TrafficWindow) Close(now sim.Time) Traffic {
	t := Traffic{
		Seconds: float64(now-w.from) / 1000.0, Requests: w.requests,
		MeanTTFT: sim.Time(w.ttft.value()), MeanITL: sim.Time(w.itl.value()), MeanReuse: w.reuse.value(),
	}
	if w.requests > 0 {
		t.MeanISL = float64(w.isl) / float64(w.requests)
		t.MeanOSL = float64(w.osl) / float64(w.requests)
	}
	*w = TrafficWindow{from: now}
	return t
}
