package autoscale

import (
	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Signals are the inputs of a scaler.
type Signals struct {
	Now  sim.Time
	Pool string // prefill or decode; "" for an aggregated pool
	// Workers is the latest requested number; it includes starting workers.
	Workers int
	// Starting is the number of workers that get no requests yet. Leaving is the number of workers that finish their
	// requests before they stop.
	Starting, Leaving int
	// Other is the latest requested number of the other pool, if it has an autoscaler; otherwise 0.
	Other int
	// Missing is the number of workers with a running server that are not in the scrape.
	Missing int
	// Peer is the signals of the other pool, if Dynamo's planner plans both pools.
	Peer   *Signals
	Scrape // without workers that are leaving or gone by now
}

// Scrape is the metrics of the cluster at an instant.
type Scrape struct {
	At    sim.Time
	Ready int // active workers at that time; other fields are sums over them; 0: no scrape yet
	// Running and Waiting are the requests on these workers inside and outside a batch.
	Running, Waiting int
	Held             int     // requests in the router, without a worker
	KV               float64 // sum of the shares of KV blocks in use
	Arrived          int     // arrived requests since the start
	Input            int     // prompt tokens of these requests
	Output           int     // output tokens since the start, if Config.SeesTokens

	// Rate, InputRate and OutputRate are arrived requests, their prompt tokens, and output tokens per second, over
	// the rate window.
	Rate, InputRate, OutputRate float64

	Each []Gauge // by ready worker

	Traffic planner.Traffic // since the start, if SeesPasses
}

// Gauge is the metrics of a worker.
type Gauge struct {
	Worker           sim.WorkerID
	Running, Waiting int
	KV               float64
	// Pass is the latest pass, empty if the worker has no requests. Pass is nil if the worker has not run a pass, or
	// if the scaler reads no passes (SeesPasses).
	Pass *scheduler.Snapshot
}

// value returns a metric of a single worker.
func (g *Gauge) value(m Metric) float64 {
	switch m {
	case Waiting:
		return float64(g.Waiting)
	case Running:
		return float64(g.Running)
	case KVUsage:
		return g.KV
	}
	return float64(g.Running + g.Waiting)
}

// Add adds the metrics of a ready worker. If the worker has no requests, its latest pass becomes an empty pass.
func (s *Scrape) Add(g Gauge) {
	if g.Pass != nil && g.Running+g.Waiting == 0 {
		g.Pass = &scheduler.Snapshot{Worker: int(g.Worker)}
	}
	s.Ready++
	s.Running += g.Running
	s.Waiting += g.Waiting
	s.KV += g.KV
	s.Each = append(s.Each, g)
}

// Keep returns the scrape with only those workers for which keep returns true.
func (s *Scrape) Keep(keep func(sim.WorkerID) bool) Scrape {
	left := *s
	left.Ready, left.Running, left.Waiting, left.KV, left.Each = 0, 0, 0, 0, nil
	for _, g := range s.Each {
		if keep(g.Worker) {
			left.Add(g)
		}
	}
	return left
}

// Metric is the name of a number that a scaler may read.
type Metric string

const (
	Waiting    Metric = "waiting"
	Running    Metric = "running"
	InFlight   Metric = "in_flight"
	Held       Metric = "held"
	KVUsage    Metric = "kv_usage"
	Rate       Metric = "requests_per_second"
	InputRate  Metric = "input_tokens_per_second"
	OutputRate Metric = "output_tokens_per_second"
)

// Metrics returns all metrics.
func Metrics() []Metric {
	return append([]Metric{Waiting, Running, InFlight, Held, KVUsage}, Rates()...)
}

// Rates returns the metrics per second.
func Rates() []Metric { return []Metric{Rate, InputRate, OutputRate} }

// Sum returns the sum of a metric over all ready workers.
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
	case InputRate:
		return s.InputRate
	case OutputRate:
		return s.OutputRate
	}
	return s.Rate
}

// since returns a rate since an earlier scrape.
func (s *Scrape) since(old *Scrape, m Metric) float64 {
	if s.At <= old.At {
		return 0
	}
	count := s.Arrived - old.Arrived
	switch m {
	case InputRate:
		count = s.Input - old.Input
	case OutputRate:
		count = s.Output - old.Output
	}
	return float64(count) / (float64(s.At-old.At) / 1000)
}

// PerWorker returns the mean of a metric over ready workers, 0 if there are none.
func (s *Scrape) PerWorker(m Metric) float64 { return s.Sum(m) / float64(max(s.Ready, 1)) }

// Exporter keeps the scrapes that the scaler does not know yet, and those needed for rates.
type Exporter struct {
	Config *Config
	past   []Scrape // ascending in time
	seen   int      // number of scrapes that the scaler knows
	old    int      // index of the latest scrape before the rate window, if there is one
}

// Add adds a scrape and computes its rates.
func (e *Exporter) Add(s Scrape) {
	begin := s.At - e.Config.RateWindow
	for e.old+1 < len(e.past) && e.past[e.old+1].At <= begin {
		e.old++
	}
	var old Scrape // the start, if no scrape is old enough
	if len(e.past) > 0 && e.past[e.old].At <= begin {
		old = e.past[e.old]
	}
	s.Rate, s.InputRate, s.OutputRate = s.since(&old, Rate), s.since(&old, InputRate), s.since(&old, OutputRate)
	e.past = append(e.past, s)
	e.forget()
}

// forget removes scrapes that are not read again, if they are more than half of all.
func (e *Exporter) forget() {
	n := min(e.old, e.seen-1)
	if n <= len(e.past)/2 {
		return
	}
	e.past = append(e.past[:0], e.past[n:]...)
	e.seen, e.old = e.seen-n, e.old-n
}

// Latest returns the latest scrape that the scaler knows at now.
func (e *Exporter) Latest(now sim.Time) Scrape {
	for e.seen < len(e.past) && e.past[e.seen].At+e.Config.Delay <= now {
		e.seen++
	}
	if e.seen == 0 {
		return Scrape{}
	}
	return e.past[e.seen-1]
}
