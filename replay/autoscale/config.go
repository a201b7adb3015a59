package autoscale

import (
	"slices"

	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/sim"
)

// Config is the configuration of an autoscaler, of its signals, and of the startup of its workers. The tags yaml, is
// and of are the keys of its file, their bounds, and the kinds of scalers that have them.
type Config struct {
	Kind Kind     `yaml:"scaler" is:"kind"`
	Min  int      `yaml:"min" is:"0..100000"` // workers
	Max  int      `yaml:"max" is:"1..100000"`
	Sync sim.Time `yaml:"sync"` // between two ticks

	Interval   sim.Time `yaml:"scrape.interval"`                 // time between two scrapes
	Delay      sim.Time `yaml:"scrape.delay"`                    // time until the scaler knows a scrape
	RateWindow sim.Time `yaml:"scrape.rate_window"`              // time over which rates are computed
	Jitter     sim.Time `json:",omitempty" yaml:"scrape.jitter"` // maximum delay of a scrape

	Startup Ladder  `yaml:"startup" what:"startup"`
	Cost    float64 `json:",omitempty" yaml:"cost"` // of a worker per hour; 0: unknown
	// Drain is the timeout of a leaving worker, which is then killed; 0: no timeout.
	Drain sim.Time `json:",omitempty" yaml:"drain.timeout"`
	// OnKill is the outcome of the requests of a killed worker: lose, retry or migrate; "": retry.
	OnKill string `json:",omitempty" yaml:"drain.on_loss" is:"loss"`
	// NewKind is the name of the kind of new workers in a mix; "": the first kind.
	NewKind string `json:",omitempty" yaml:"new_workers"`

	Tolerance float64  `yaml:"tolerance" of:"hpa keda"`                                                       // for HPA and KEDA: tolerance of the ratio of a metric to its target
	Targets   []Target `json:",omitempty" yaml:"metrics,triggers" of:"hpa,keda" list:"metrics" each:"target"` // for HPA and KEDA: the target with the most workers counts
	Up        Behavior `yaml:"scale_up" is:"behavior" of:"hpa keda rate predict"`                             // for scalers that read loads
	Down      Behavior `yaml:"scale_down" is:"behavior" of:"hpa keda rate predict"`

	Polling  sim.Time  `json:",omitempty" yaml:"polling_interval" of:"keda"`             // for KEDA: time between two polls of triggers
	Cooldown sim.Time  `json:",omitempty" yaml:"cooldown_period" of:"keda"`              // for KEDA: time without an active trigger before scaling to zero
	Idle     *int      `json:",omitempty" yaml:"idle_replicas" of:"keda" is:"0..100000"` // for KEDA: workers without an active trigger, below Min; nil: Min
	Fallback *Fallback `json:",omitempty" yaml:"fallback" of:"keda" what:"fallback"`     // for KEDA; nil: none
	Load     *Load     `json:",omitempty" yaml:",inline"`                                // for rate, predict and perfect
	Forecast *Forecast `json:",omitempty" yaml:",inline"`                                // for predict
	Rules    *Rules    `json:",omitempty" yaml:",inline"`
	Slots    []Slot    `json:",omitempty" yaml:"slots" of:"schedule" list:"slots" each:"slot"` // for schedule
	Every    sim.Time  `json:",omitempty" yaml:"every" of:"schedule"`                          // for schedule: repeats after this time; 0: never
	// Ratio is the number of workers per worker of the other pool, for ratio.
	Ratio   float64         `json:",omitempty" yaml:"ratio" of:"ratio"`
	Program *Program        `json:",omitempty" yaml:",inline"` // for process
	Planner *planner.Config `json:",omitempty" yaml:",inline"` // for dynamo-planner
}

// Target is the target value of a metric. With HPA, the metric is the mean over ready workers. With KEDA, the metric
// is the sum divided by the number of workers.
type Target struct {
	Metric Metric  `yaml:"metric" is:"metric"`
	Value  float64 `yaml:"target,threshold" of:"hpa,keda"`
	// Activation is the value above which a trigger of KEDA is active.
	Activation float64 `json:",omitempty" yaml:"activation" of:"keda"`
}

// Behavior limits the changes of HPA in one direction.
type Behavior struct {
	// Set reports whether the file has this direction. If neither direction is set, HPA and KEDA follow the rule of
	// HPA without behavior. That rule uses the maximum of five minutes, and limits growth to twice the workers or to
	// four more workers.
	Set      bool     `json:",omitempty"`
	Window   sim.Time `yaml:"window"`                                                   // stabilization window
	Policies []Policy `json:",omitempty" yaml:"policies" list:"policies" each:"policy"` // none: no limit
	Least    bool     `json:",omitempty"`                                               // the policy with the smallest change counts, not the largest
	Off      bool     `json:",omitempty"`                                               // no changes in this direction
	// Tolerance is the tolerance of HPA and KEDA in this direction; nil: Config.Tolerance.
	Tolerance *float64 `json:",omitempty" yaml:"tolerance" of:"hpa keda"`
}

// Policy limits the workers that are added or removed in a period. Policy is a number, or percent of the workers at
// the start of the period.
type Policy struct {
	Workers int      `json:",omitempty" yaml:"workers" is:"1..100000"`
	Percent float64  `json:",omitempty" yaml:"percent"`
	Period  sim.Time `yaml:"period"`
}

// Default returns the defaults of a kind, with ticks and scrapes every 15 s. HPA and KEDA have a tolerance of 0.1.
// HPA and KEDA add four workers or double the workers at once, and remove workers after five minutes.
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

// MostWorkers is the limit of Max.
const MostWorkers = 100_000

// leastInterval is the minimum interval between acts of an autoscaler, so that every replay ends.
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

// hasBehavior reports whether windows and policies apply, instead of HPA's rule without them.
func (c *Config) hasBehavior() bool {
	return c.Up.Set || c.Down.Set || c.Kind != HPA && c.Kind != KEDA
}

// seesAll reports whether the scaler may read any signal.
func (c *Config) seesAll() bool { return c.Kind == Custom || c.Kind == ByProgram }

// SeesKV reports whether the scaler may read KV usage.
func (c *Config) SeesKV() bool { return c.seesAll() || slices.Contains(c.looks(), KVUsage) }

// SeesTokens reports whether the scaler may read the tokens that workers produce.
func (c *Config) SeesTokens() bool { return c.seesAll() || slices.Contains(c.looks(), OutputRate) }
