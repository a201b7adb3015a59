package router

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Signal is a fact that a router knows with a delay.
type Signal string

// The signals are the reports of workers, the KV events of their caches, and the sent requests, which several routers
// exchange.
const (
	Running Signal = "running"
	Waiting Signal = "waiting"
	KVUsage Signal = "kv_usage"
	Caches  Signal = "index"
	Loads   Signal = "loads"
)

// AllSignals returns all signals, starting with the reports of workers.
func AllSignals() []Signal { return []Signal{Running, Waiting, KVUsage, Caches, Loads} }

// Reported reports whether a signal is part of the reports of workers.
func (s Signal) Reported() bool { return s == Running || s == Waiting || s == KVUsage }

// place returns the index of a signal in AllSignals.
func (s Signal) place() int { return slices.Index(AllSignals(), s) }

// Age is the age of a signal when a router reads it.
type Age struct {
	// Delay is the time from a change until a router can read it.
	Delay sim.Time `yaml:"delay" is:"delay"`
	// Interval is the time between two reads, the first at 0. If Interval is 0, the router reads at each choice.
	Interval sim.Time `yaml:"interval"`
	// Never reports that the signal never reaches a router. Never is supported only for Caches.
	Never bool `json:",omitempty"`
}

// asOf returns the latest instant that is known at now.
func (a Age) asOf(now sim.Time) sim.Time {
	if a.Never {
		return sim.Time(math.Inf(-1))
	}
	if a.Interval > 0 {
		now = sim.Time(a.Interval * sim.Time(math.Floor(float64(now/a.Interval))))
	}
	return now - a.Delay
}

// Signals are the ages of signals; nil: the default.
type Signals struct {
	Running *Age `json:",omitempty" yaml:"running" is:"running"`
	Waiting *Age `json:",omitempty" yaml:"waiting" is:"waiting"`
	KVUsage *Age `json:",omitempty" yaml:"kv_usage" is:"kv_usage"`
	Index   *Age `json:",omitempty" yaml:"index" is:"index"`
	Loads   *Age `json:",omitempty" yaml:"loads" is:"loads"`
}

// placeOf returns a pointer to the age of a signal.
func (s *Signals) placeOf(x Signal) **Age {
	return [...]**Age{&s.Running, &s.Waiting, &s.KVUsage, &s.Index, &s.Loads}[x.place()]
}

// Set sets the age of a signal.
func (s *Signals) Set(x Signal, age Age) { *s.placeOf(x) = &age }

// List returns the signals with an age.
func (s Signals) List() []Signal {
	return slices.DeleteFunc(AllSignals(), func(x Signal) bool { return *s.placeOf(x) == nil })
}

// Under returns the age of each signal in over, or in s if over has none.
func (s Signals) Under(over Signals) Signals {
	for _, x := range over.List() {
		*s.placeOf(x) = *over.placeOf(x)
	}
	return s
}

// Only returns s with only the given signals.
func (s Signals) Only(looks []Signal) Signals {
	for _, x := range s.List() {
		if !slices.Contains(looks, x) {
			*s.placeOf(x) = nil
		}
	}
	return s
}

// AgeOf returns the age of a signal. gated reports whether a Gate reads it.
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

// ages is the ages of all signals, in the order of AllSignals.
type ages [5]Age

func makeAges(s Signals, gated bool) (all ages) {
	for i, x := range AllSignals() {
		all[i] = s.AgeOf(x, gated)
	}
	return all
}

// The constants are the indexes of signals in AllSignals.
const (
	atRunning = iota
	atWaiting
	atKVUsage
	atCaches
	atLoads
)

// AgeOf returns the age of the values of a signal that the policy sees. Before the first report, these are the
// initial values.
func (c *Candidates) AgeOf(s Signal) sim.Time { return c.Now - c.ages[s.place()].asOf(c.Now).Max0() }

// readSignals updates the facts of the policy to the state that a router knows at now.
func (d *Dispatcher) readSignals(now sim.Time) {
	d.seen.Now = now
	if d.needs.Metrics {
		d.readMetrics(now)
	}
	if d.lateLoads != nil {
		d.lateLoads.catchUp(now, d)
	}
}

// matchCaches finds the cached blocks of a prompt that a router knows at now.
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
