package autoscale

import (
	"slices"

	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/sim"
)

// Config is an autoscaler, what it sees, and how long its workers take to start. The tags yaml, is and of have the keys of
// its file, their bounds, and the kinds that have them.
type Config struct {
	Kind Kind     `yaml:"scaler" is:"kind"`
	Min  int      `yaml:"min" is:"0..100000"` // workers
	Max  int      `yaml:"max" is:"1..100000"`
	Sync sim.Time `yaml:"sync"` // between two ticks

	Interval   sim.Time `yaml:"scrape.interval"`                 // between two scrapes
	Delay      sim.Time `yaml:"scrape.delay"`                    // until a scrape has reached the scaler
	RateWindow sim.Time `yaml:"scrape.rate_window"`              // over which rates are taken
	Jitter     sim.Time `json:",omitempty" yaml:"scrape.jitter"` // up to which a scrape is late

	Startup Ladder  `yaml:"startup" what:"startup"`
	Cost    float64 `json:",omitempty" yaml:"cost"` // of a worker in an hour; 0: not known
	// Drain is how long a worker that leaves may finish its requests, then it is killed; 0: as long as they take.
	Drain sim.Time `json:",omitempty" yaml:"drain.timeout"`
	// OnKill is what happens to its requests then: lose, retry or migrate; "": retry.
	OnKill string `json:",omitempty" yaml:"drain.on_loss" is:"loss"`
	// NewKind is the kind of new workers in a mix, by its name; "": the first.
	NewKind string `json:",omitempty" yaml:"new_workers"`

	Tolerance float64  `yaml:"tolerance" of:"hpa keda"`                                                       // of HPA and KEDA: so near to 1, the ratio of a metric to its target changes nothing
	Targets   []Target `json:",omitempty" yaml:"metrics,triggers" of:"hpa,keda" list:"metrics" each:"target"` // of both: the one that wants the most workers counts
	Up        Behavior `yaml:"scale_up" is:"behavior" of:"hpa keda rate predict"`                             // of all that read loads
	Down      Behavior `yaml:"scale_down" is:"behavior" of:"hpa keda rate predict"`

	Polling  sim.Time  `json:",omitempty" yaml:"polling_interval" of:"keda"`             // of KEDA: between two looks whether a trigger is active
	Cooldown sim.Time  `json:",omitempty" yaml:"cooldown_period" of:"keda"`              // of KEDA: for so long none has to be, for no worker at all
	Idle     *int      `json:",omitempty" yaml:"idle_replicas" of:"keda" is:"0..100000"` // of KEDA: workers when no trigger is active, below Min; nil: Min
	Fallback *Fallback `json:",omitempty" yaml:"fallback" of:"keda" what:"fallback"`     // of KEDA; nil: none
	Load     *Load     `json:",omitempty" yaml:",inline"`                                // of rate, predict and perfect
	Forecast *Forecast `json:",omitempty" yaml:",inline"`                                // of predict
	Rules    *Rules    `json:",omitempty" yaml:",inline"`
	Slots    []Slot    `json:",omitempty" yaml:"slots" of:"schedule" list:"slots" each:"slot"` // of a schedule
	Every    sim.Time  `json:",omitempty" yaml:"every" of:"schedule"`                          // after which it begins anew; 0: never
	// Ratio is the number of workers for each worker of the other pool; of ratio.
	Ratio   float64         `json:",omitempty" yaml:"ratio" of:"ratio"`
	Program *Program        `json:",omitempty" yaml:",inline"` // of process
	Planner *planner.Config `json:",omitempty" yaml:",inline"` // of dynamo-planner
}

// Target is the value that a metric is to have: its mean over ready workers with HPA, its sum by
// the number of workers with KEDA.
type Target struct {
	Metric     Metric  `yaml:"metric" is:"metric"`
	Value      float64 `yaml:"target,threshold" of:"hpa,keda"`
	Activation float64 `json:",omitempty" yaml:"activation" of:"keda"` // of KEDA: above it there is to be a worker
}

// Behavior is how fast HPA goes in one direction.
type Behavior struct {
	// Set is true if the file has it. HPA and KEDA with neither direction set follow the rule of
	// HPA without behavior: the most wanted in five minutes, at most twice the workers, or four.
	Set      bool     `json:",omitempty"`
	Window   sim.Time `yaml:"window"`                                                   // it goes no further than what was wanted at every tick in it
	Policies []Policy `json:",omitempty" yaml:"policies" list:"policies" each:"policy"` // none: as fast as it wants
	Least    bool     `json:",omitempty"`                                               // the policy that allows least counts, not the one that allows most
	Off      bool     `json:",omitempty"`                                               // it never goes there
	// Tolerance is that of HPA and KEDA in this direction; nil: Config.Tolerance.
	Tolerance *float64 `json:",omitempty" yaml:"tolerance" of:"hpa keda"`
}

// Policy bounds the workers added or taken away in a period: a number, or percent of those at its begin.
type Policy struct {
	Workers int      `json:",omitempty" yaml:"workers" is:"1..100000"`
	Percent float64  `json:",omitempty" yaml:"percent"`
	Period  sim.Time `yaml:"period"`
}

// Default returns the defaults of a kind: ticks and scrapes every 15 s, and of HPA and KEDA a tolerance of 0.1, up at
// once by four workers or to twice as many, down after five minutes.
func Default(kind Kind) Config {
	const second = 1000
	c := Config{Kind: kind, Min: 1, Max: 10, Sync: 15 * second, Interval: 15 * second, RateWindow: 60 * second}
	switch kind {
	case HPA, KEDA:
		c.Tolerance = 0.1
		c.Up = Behavior{Policies: []Policy{{Workers: 4, Period: 15 * second}, {Percent: 100, Period: 15 * second}}}
		c.Down = Behavior{Window: 300 * second, Policies: []Policy{{Percent: 100, Period: 15 * second}}}
		if kind == KEDA {
			c.Min, c.Max, c.Polling, c.Cooldown = 0, 100, 30*second, 300*second
		}
	case ByRate:
		c.Load = &Load{Metric: Rate}
		c.Down.Window = 300 * second
	case Predict:
		c.Sync = 180 * second
		c.Load = &Load{Metric: Rate}
		c.Forecast = &Forecast{Predictor: Constant, Window: 10, Level: 0.5, Trend: 0.1, Season: 0.5}
	case ByRules:
		c.Rules = &Rules{UpBy: 1, DownBy: 1}
	case ByProgram:
		c.Program = new(Program)
	case Foreknown:
		c.Load = &Load{Metric: InFlight}
	case DynamoPlanner:
		p := planner.Default()
		c.Planner, c.Min, c.Max, c.Sync, c.Interval = &p, 0, MostWorkers, 5*second, 5*second
	}
	return c
}

// MostWorkers bounds Max.
const MostWorkers = 100_000

// leastInterval bounds how often an autoscaler acts, so that every replay ends.
const leastInterval sim.Time = 100

// looks returns the metrics that the scaler reads.
func (c *Config) looks() []Metric {
	var all []Metric
	for _, t := range c.Targets {
		all = append(all, t.Metric)
	}
	if c.Load != nil {
		all = append(all, c.Load.Metric)
	}
	if c.Rules != nil {
		facts := ruleFacts()
		for _, i := range c.Rules.facts() {
			all = append(all, Metric(facts[i].Name.Name))
		}
	}
	return all
}

// hasBehavior reports whether windows and policies apply, and not HPA's rule without them.
func (c *Config) hasBehavior() bool {
	return c.Up.Set || c.Down.Set || c.Kind != HPA && c.Kind != KEDA
}

// seesAll reports whether it is not known what the scaler reads.
func (c *Config) seesAll() bool { return c.Kind == Custom || c.Kind == ByProgram }

// SeesKV reports whether the scaler reads KV blocks, or may.
func (c *Config) SeesKV() bool { return c.seesAll() || slices.Contains(c.looks(), KVUsage) }

// SeesTokens reports whether the scaler reads the tokens that workers give, or may.
func (c *Config) SeesTokens() bool { return c.seesAll() || slices.Contains(c.looks(), OutputRate) }
