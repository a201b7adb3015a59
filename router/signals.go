package router

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Signal is something that a router learns with a delay.
type Signal string

// The signals are the reports of workers, the KV events of their caches, and the requests that were sent, which several
// routers exchange.
const (
	Running Signal = "running"
	Waiting Signal = "waiting"
	KVUsage Signal = "kv_usage"
	Caches  Signal = "index"
	Loads   Signal = "loads"
)

// AllSignals returns all signals, those of workers' reports first.
func AllSignals() []Signal { return []Signal{Running, Waiting, KVUsage, Caches, Loads} }

// Reported reports whether a signal is a part of what workers report of themselves.
func (s Signal) Reported() bool { return s == Running || s == Waiting || s == KVUsage }

// place is where a signal stands among all.
func (s Signal) place() int { return slices.Index(AllSignals(), s) }

// Age is how old a signal is when a router reads it.
type Age struct {
	// Delay is from when something is so until a router can read it.
	Delay sim.Time `yaml:"delay" is:"delay"`
	// Interval is between two reads, the first at 0; 0: a read at each look.
	Interval sim.Time `yaml:"interval"`
	// Never reports that nothing reaches a router; of Caches only.
	Never bool `json:",omitempty"`
}

// asOf returns the instant up to which everything is known at now.
func (a Age) asOf(now sim.Time) sim.Time {
	if a.Never {
		return sim.Time(math.Inf(-1))
	}
	if a.Interval > 0 {
		now = sim.Time(a.Interval * sim.Time(math.Floor(float64(now/a.Interval))))
	}
	return now - a.Delay
}

// Signals are how old signals are; nil: as they are by default.
type Signals struct {
	Running *Age `json:",omitempty" yaml:"running" is:"running"`
	Waiting *Age `json:",omitempty" yaml:"waiting" is:"waiting"`
	KVUsage *Age `json:",omitempty" yaml:"kv_usage" is:"kv_usage"`
	Index   *Age `json:",omitempty" yaml:"index" is:"index"`
	Loads   *Age `json:",omitempty" yaml:"loads" is:"loads"`
}

// placeOf returns where the age of a signal stands.
func (s *Signals) placeOf(x Signal) **Age {
	return [...]**Age{&s.Running, &s.Waiting, &s.KVUsage, &s.Index, &s.Loads}[x.place()]
}

// Set makes a signal as old as age.
func (s *Signals) Set(x Signal, age Age) { *s.placeOf(x) = &age }

// List returns the signals of which something is said.
func (s Signals) List() []Signal {
	return slices.DeleteFunc(AllSignals(), func(x Signal) bool { return *s.placeOf(x) == nil })
}

// Under returns the age in over of each signal or, if there is none, that in s.
func (s Signals) Under(over Signals) Signals {
	for _, x := range over.List() {
		*s.placeOf(x) = *over.placeOf(x)
	}
	return s
}

// Only returns the ages in s of some signals.
func (s Signals) Only(looks []Signal) Signals {
	for _, x := range s.List() {
		if !slices.Contains(looks, x) {
			*s.placeOf(x) = nil
		}
	}
	return s
}

// AgeOf returns how old a signal is; gated reports whether a Gate reads it.
func (s Signals) AgeOf(x Signal, gated bool) Age {
	switch age := *s.placeOf(x); {
	case age != nil:
		return *age
	case !x.Reported():
		return Age{}
	case gated:
		return Age{Delay: Lag, Interval: Scrape}
	}
	return Age{Interval: Scrape}
}

// ListSignals returns the signals that a policy with these needs may read.
func (n *Needs) ListSignals() []Signal {
	return slices.DeleteFunc(AllSignals(), func(x Signal) bool {
		switch {
		case x.Reported():
			return !n.Metrics
		case x == Caches:
			return !n.Overlap
		}
		return !n.Running
	})
}

// ages are those of all signals, by their place.
type ages [5]Age

func makeAges(s Signals, gated bool) (all ages) {
	for i, x := range AllSignals() {
		all[i] = s.AgeOf(x, gated)
	}
	return all
}

// The places of signals.
const (
	atRunning = iota
	atWaiting
	atKVUsage
	atCaches
	atLoads
)

// AgeOf returns the age of the shown values of a signal. Before the first report the state is that of the start.
func (c *Candidates) AgeOf(s Signal) sim.Time { return c.Now - c.ages[s.place()].asOf(c.Now).Max0() }

// readSignals shows the policy what a router knows at now.
func (d *Dispatcher) readSignals(now sim.Time) {
	d.seen.Now = now
	if d.needs.Metrics {
		d.readMetrics(now)
	}
	if d.lateLoads != nil {
		d.lateLoads.catchUp(now, d)
	}
}

// matchCaches finds the cached part of a prompt, as far as a router knows at now.
func (d *Dispatcher) matchCaches(now sim.Time, q *sim.Request) error {
	if !d.needs.Overlap && !d.tells {
		return nil
	}
	if d.late != nil {
		if err := d.late.catchUp(now, d.index); err != nil {
			return err
		}
	}
	d.index.match(q, &d.overlap)
	if !d.sparse {
		d.overlap.spread()
	}
	return nil
}
