package autoscale

import (
	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Signals are what a scaler sees.
type Signals struct {
	Now  sim.Time
	Pool string // prefill or decode; "" if workers do both
	// Workers is the number that was wanted last; it includes starting workers.
	Workers int
	// Starting are the workers that get no requests yet, Leaving the workers that finish their requests before they stop.
	Starting, Leaving int
	// Other is the number that was wanted last of the other pool, if that has an autoscaler; else 0.
	Other int
	// Missing are the workers with a running server that the scrape has nothing of.
	Missing int
	// Peer is the signals of the other pool, if Dynamo's planner plans both.
	Peer   *Signals
	Scrape // without the workers that are leaving or gone by now
}

// Scrape is what was read of the cluster at an instant.
type Scrape struct {
	At    sim.Time
	Ready int // workers that got requests then; the other fields are their sums; 0: nothing has been read yet
	// Running and Waiting are the requests on these workers, with a place in a batch and without.
	Running, Waiting int
	Held             int     // requests in the router, which have no worker yet
	KV               float64 // sum of the shares of their KV blocks that requests hold
	Arrived          int     // requests since the start
	Input            int     // tokens of their prompts
	Output           int     // tokens that workers gave since the start, where Config.SeesTokens

	// Of a second, in the time over which rates are taken: requests that arrived, tokens of
	// their prompts, and tokens that workers gave.
	Rate, InputRate, OutputRate float64

	Each []Gauge // of each ready worker

	Traffic planner.Traffic // since the start, where SeesPasses
}

// Gauge is the metrics of a worker.
type Gauge struct {
	Worker           sim.WorkerID
	Running, Waiting int
	KV               float64
	// Pass is the latest, empty if the worker has no requests; nil: it has had none, or the scaler reads none (SeesPasses).
	Pass *scheduler.Snapshot
}

// value returns a metric of single workers.
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

// Add adds the metrics of a ready worker. Without requests its latest pass is an empty one.
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

// Keep returns the scrape with those of its workers alone that keep reports.
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

// Metric is a number that a scaler may read.
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

// Metrics returns all of them.
func Metrics() []Metric {
	return append([]Metric{Waiting, Running, InFlight, Held, KVUsage}, Rates()...)
}

// Rates returns the metrics per second.
func Rates() []Metric { return []Metric{Rate, InputRate, OutputRate} }

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
	case InputRate:
		return s.InputRate
	case OutputRate:
		return s.OutputRate
	}
	return s.Rate
}

// since returns a rate over the time since an earlier scrape.
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

// PerWorker returns the mean of a metric over ready workers, 0 without any.
func (s *Scrape) PerWorker(m Metric) float64 { return s.Sum(m) / float64(max(s.Ready, 1)) }

// Exporter keeps the scrapes that have not reached the scaler, and those over which rates are taken.
type Exporter struct {
	Config *Config
	past   []Scrape // in order of time
	seen   int      // of them, that have reached the scaler
	old    int      // the latest of them before the time over which rates are taken, if there is one
}

// Add takes in a scrape, and fills in its rates.
func (e *Exporter) Add(s Scrape) {
	begin := s.At - e.Config.RateWindow
	for e.old+1 < len(e.past) && e.past[e.old+1].At <= begin {
		e.old++
	}
	var old Scrape // the start, if there is none before
	if len(e.past) > 0 && e.past[e.old].At <= begin {
		old = e.past[e.old]
	}
	s.Rate, s.InputRate, s.OutputRate = s.since(&old, Rate), s.since(&old, InputRate), s.since(&old, OutputRate)
	e.past = append(e.past, s)
	e.forget()
}

// forget drops values that are not read any more, when they are half of the kept ones.
func (e *Exporter) forget() {
	n := min(e.old, e.seen-1)
	if n <= len(e.past)/2 {
		return
	}
	e.past = append(e.past[:0], e.past[n:]...)
	e.seen, e.old = e.seen-n, e.old-n
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
