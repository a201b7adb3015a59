package autoscale

import "github.com/replay-llm/replay/sim"

// Signals are what a scaler sees.
type Signals struct {
	Now  sim.Time
	Pool string // prefill or decode; "" where workers do both
	// Workers is the number that was wanted last: those that are starting are among them.
	Workers int
	Scrape
}

// Scrape is what was read of the cluster at an instant.
type Scrape struct {
	At    sim.Time
	Ready int // workers that got requests then, whose sums the others are; 0: nothing has been read yet
	// Running and Waiting are the requests on these workers, with a place in a batch and without.
	Running, Waiting int
	Held             int     // requests in the router, which have no worker yet
	KV               float64 // sum of the shares of their KV blocks that requests hold
	Arrived          int     // requests since the start
	Rate             float64 // requests per second that arrived in the time over which rates are taken
}

// Metric is a number that a scaler may look at.
type Metric string

const (
	Waiting  Metric = "waiting"
	Running  Metric = "running"
	InFlight Metric = "in_flight"
	Held     Metric = "held"
	KVUsage  Metric = "kv_usage"
	Rate     Metric = "requests_per_second"
)

// Metrics returns all of them.
func Metrics() []Metric { return []Metric{Waiting, Running, InFlight, Held, KVUsage, Rate} }

// Sum returns a metric over all ready workers.
func (s *Scrape) Sum(m Metric) float64 {
	switch m {
	case Waiting:
		return float64(s.Waiting)
	case Running:
		return float64(s.Running)
	case InFlight:
		return float64(s.Running + s.Waiting)
	case Held:
		return float64(s.Held)
	case KVUsage:
		return s.KV
	}
	return s.Rate
}

// PerWorker returns the mean of a metric over ready workers, 0 without any.
func (s *Scrape) PerWorker(m Metric) float64 { return s.Sum(m) / float64(max(s.Ready, 1)) }

// Exporter keeps the scrapes that have not reached the scaler, and those over which rates are taken.
type Exporter struct {
	Config *Config
	past   []Scrape // in order of time
	seen   int      // of them, that have reached the scaler
}

// Add takes in a scrape, and fills in its rate.
func (e *Exporter) Add(s Scrape) {
	from := sim.Time(0)
	arrived := 0
	for i := len(e.past) - 1; i >= 0; i-- {
		from, arrived = e.past[i].At, e.past[i].Arrived
		if from <= s.At-e.Config.RateWindow {
			break
		}
		if i == 0 {
			from, arrived = 0, 0
		}
	}
	if s.At > from {
		s.Rate = float64(s.Arrived-arrived) / (float64(s.At-from) / 1000)
	}
	e.past = append(e.past, s)
	e.forget(s.At)
}

// forget drops what nobody will look at.
func (e *Exporter) forget(now sim.Time) {
	n := 0
	for n+1 < e.seen && e.past[n+1].At <= now-e.Config.RateWindow {
		n++
	}
	e.past = append(e.past[:0], e.past[n:]...)
	e.seen -= n
}

// Latest returns the latest scrape that has reached the scaler by now.
func (e *Exporter) Latest(now sim.Time) Scrape {
	for e.seen < len(e.past) && e.past[e.seen].At+e.Config.Delay <= now {
		e.seen++
	}
	if e.seen == 0 {
		return Scrape{}
	}
	return e.past[e.seen-1]
}
