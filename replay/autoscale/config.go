package autoscale

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Config is an autoscaler, what it sees, and how long its workers take to start.
type Config struct {
	Kind     Kind
	Min, Max int      // workers
	Sync     sim.Time // between two ticks

	Interval   sim.Time // between two scrapes
	Delay      sim.Time // until a scrape has reached the scaler
	RateWindow sim.Time // over which rates are taken

	Startup Ladder
	Cost    float64 `json:",omitempty"` // of a worker in an hour; 0: not known

	Tolerance float64  // of HPA: so near to 1, the ratio of a metric to its target changes nothing
	Targets   []Target `json:",omitempty"` // of HPA: the one that wants the most workers counts
	Up, Down  Behavior
}

// Target is the value that a metric is to have: its mean over ready workers.
type Target struct {
	Metric Metric
	Value  float64
}

// Ladder is what a worker goes through until it gets requests; all 0: the startup time of its engine.
type Ladder struct{ Node, Image, Weights, WarmUp sim.Time }

// Sum returns how long all of it takes.
func (l *Ladder) Sum() sim.Time { return l.Node + l.Image + l.Weights + l.WarmUp }

// Behavior is how fast HPA goes in one direction.
type Behavior struct {
	Window   sim.Time // it goes no further than what was wanted at every tick in it
	Policies []Policy `json:",omitempty"` // none: as fast as it wants
	Least    bool     `json:",omitempty"` // the policy that allows least counts, not the one that allows most
	Off      bool     `json:",omitempty"` // it never goes there
}

// Policy bounds the workers added or taken away in a period: a number, or percent of those at its begin.
type Policy struct {
	Workers int     `json:",omitempty"`
	Percent float64 `json:",omitempty"`
	Period  sim.Time
}

// Default returns Kubernetes' defaults: ticks and scrapes every 15 s, a tolerance of 0.1, up at
// once by four workers or to twice as many, down after five minutes.
func Default() Config {
	const second = 1000
	return Config{
		Kind: HPA, Min: 1, Max: 10, Sync: 15 * second, Interval: 15 * second, RateWindow: 60 * second, Tolerance: 0.1,
		Up:   Behavior{Policies: []Policy{{Workers: 4, Period: 15 * second}, {Percent: 100, Period: 15 * second}}},
		Down: Behavior{Window: 300 * second, Policies: []Policy{{Percent: 100, Period: 15 * second}}},
	}
}

// MostWorkers bounds Max.
const MostWorkers = 100_000

// leastInterval bounds how often somebody looks, so that every replay ends.
const leastInterval sim.Time = 100

// Check refuses what makes no sense.
func (c *Config) Check() error {
	switch {
	case c.Kind != Given && !slices.Contains(Kinds(), c.Kind):
		return fmt.Errorf("scaler %q, want one of %v", c.Kind, Kinds())
	case c.Min < 1 || c.Max < c.Min || c.Max > MostWorkers:
		return fmt.Errorf("%d to %d workers, want at least 1 and at most %d, in order", c.Min, c.Max, MostWorkers)
	case !isTime(c.Sync, leastInterval) || !isTime(c.Interval, leastInterval):
		return fmt.Errorf("ticks every %v ms and scrapes every %v ms, want at least %v ms", float64(c.Sync), float64(c.Interval), float64(leastInterval))
	case !isTime(c.Delay, 0) || !isTime(c.RateWindow, 0):
		return fmt.Errorf("a delay of %v ms and rates over %v ms, want at least 0 ms", float64(c.Delay), float64(c.RateWindow))
	case !isNumber(c.Cost):
		return fmt.Errorf("a worker costs %v in an hour, want at least 0", c.Cost)
	}
	for _, t := range []sim.Time{c.Startup.Node, c.Startup.Image, c.Startup.Weights, c.Startup.WarmUp} {
		if !isTime(t, 0) {
			return fmt.Errorf("a step of the start takes %v ms, want at least 0 ms", float64(t))
		}
	}
	if c.Kind == HPA {
		return c.checkHPA()
	}
	return nil
}

// SeesKV reports whether the scaler looks at KV blocks, or may.
func (c *Config) SeesKV() bool {
	return c.Kind == Given || slices.ContainsFunc(c.Targets, func(t Target) bool { return t.Metric == KVUsage })
}

func (c *Config) checkHPA() error {
	if len(c.Targets) == 0 {
		return errors.New("no metrics, want at least one, as {metric: waiting, target: 4}")
	}
	for _, t := range c.Targets {
		if !slices.Contains(Metrics(), t.Metric) || !isNumber(t.Value) || t.Value == 0 {
			return fmt.Errorf("metric %q with target %v, want one of %v and a target above 0", t.Metric, t.Value, Metrics())
		}
	}
	if !isNumber(c.Tolerance) || c.Tolerance >= 1 {
		return fmt.Errorf("tolerance is %v, want at least 0 and below 1", c.Tolerance)
	}
	for _, b := range []*Behavior{&c.Up, &c.Down} {
		if !isTime(b.Window, 0) {
			return fmt.Errorf("a window of %v ms, want at least 0 ms", float64(b.Window))
		}
		for _, p := range b.Policies {
			if !isTime(p.Period, 1) || p.Workers < 0 || !isNumber(p.Percent) || (p.Workers > 0) == (p.Percent > 0) {
				return fmt.Errorf("a policy of %d workers and %v percent in %v ms, want workers or percent above 0, and a period", p.Workers, p.Percent, float64(p.Period))
			}
		}
	}
	return nil
}

// isTime reports whether t is finite and at least so long.
func isTime(t, least sim.Time) bool { return t >= least && !math.IsInf(float64(t), 0) }

// isNumber reports whether x is finite and not negative.
func isNumber(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }
