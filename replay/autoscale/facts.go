package autoscale

import (
	"strings"

	"github.com/replay-llm/replay/internal/formula"
)

// fact is a fact that rules may read.
type fact struct {
	formula.Name
	help  string
	known bool // known before the first scrape
	each  func(g *Gauge) float64
	all   func(c *Config, s *Signals) float64
}

// Fact is a name that rules may read, with its description.
type Fact struct{ Name, Help string }

// Facts returns the facts of rules: facts of each active worker, then facts of the pool.
func Facts() []Fact {
	facts := ruleFacts()
	all := make([]Fact, len(facts))
	for i, f := range facts {
		all[i] = Fact{f.Name.Name, strings.ReplaceAll(f.help, "`", "")}
	}
	return all
}

// ruleLanguage returns the language of rules.
func ruleLanguage() *formula.Language {
	var names []formula.Name
	for _, f := range ruleFacts() {
		names = append(names, f.Name)
	}
	return formula.NewLanguage(names)
}

// ruleFacts returns all facts: facts of each ready worker, then facts of the cluster.
func ruleFacts() []fact {
	each := func(name, help string, kind formula.Kind, f func(g *Gauge) float64) fact {
		return fact{Name: formula.Name{Name: name, Kind: kind, Each: true}, help: help, each: f}
	}
	all := func(name, help string, kind formula.Kind, f func(c *Config, s *Signals) float64) fact {
		return fact{Name: formula.Name{Name: name, Kind: kind}, help: help, all: f}
	}
	known := func(f fact) fact {
		f.known = true
		return f
	}
	sum := func(m Metric) func(*Config, *Signals) float64 {
		return func(_ *Config, s *Signals) float64 { return s.Sum(m) }
	}
	return []fact{
		each("waiting", "waiting requests on a worker", formula.Integer, func(g *Gauge) float64 { return float64(g.Waiting) }),
		each("running", "running requests on a worker", formula.Integer, func(g *Gauge) float64 { return float64(g.Running) }),
		each("in_flight", "waiting and running requests on a worker", formula.Integer, func(g *Gauge) float64 { return float64(g.Running + g.Waiting) }),
		each("kv_usage", "share of the KV blocks of a worker in use, 0 to 1", formula.Number, func(g *Gauge) float64 { return g.KV }),
		all("waiting_total", "waiting requests on all ready workers", formula.Integer, sum(Waiting)),
		all("running_total", "running requests on all ready workers", formula.Integer, sum(Running)),
		all("in_flight_total", "waiting and running requests on all ready workers", formula.Integer, sum(InFlight)),
		all("held", "requests that the router holds", formula.Integer, sum(Held)),
		all("requests_per_second", "arrivals per second, averaged over `rate_window`", formula.Number, sum(Rate)),
		all("input_tokens_per_second", "prompt tokens of arrivals per second, averaged over `rate_window`", formula.Number, sum(InputRate)),
		all("output_tokens_per_second", "answer tokens per second, averaged over `rate_window`", formula.Number, sum(OutputRate)),
		known(all("workers", "last requested number of workers, including starting workers", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Workers) })),
		known(all("starting", "starting workers, which get no requests yet", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Starting) })),
		known(all("leaving", "draining workers, which get no new requests", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Leaving) })),
		all("missing", "running workers that are missing in the scrape", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Missing) }),
		all("ready", "workers that were ready at the scrape", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Ready) }),
		known(all("least", "`min` of the autoscaler file: minimum number of workers", formula.Integer, func(c *Config, _ *Signals) float64 { return float64(c.Min) })),
		known(all("most", "`max` of the autoscaler file: maximum number of workers", formula.Integer, func(c *Config, _ *Signals) float64 { return float64(c.Max) })),
		all("signal_age", "age of the scrape, in ms", formula.Number, func(_ *Config, s *Signals) float64 { return float64(s.Now - s.At) }),
		known(all("now", "time since the start of the run, in ms", formula.Number, func(_ *Config, s *Signals) float64 { return float64(s.Now) })),
	}
}
