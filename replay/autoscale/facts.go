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
		each("waiting", "requests on a worker without a place in a batch", formula.Integer, func(g *Gauge) float64 { return float64(g.Waiting) }),
		each("running", "requests on a worker with one", formula.Integer, func(g *Gauge) float64 { return float64(g.Running) }),
		each("in_flight", "both", formula.Integer, func(g *Gauge) float64 { return float64(g.Running + g.Waiting) }),
		each("kv_usage", "the share of its KV blocks that requests hold, 0 to 1", formula.Number, func(g *Gauge) float64 { return g.KV }),
		all("waiting_total", "waiting, of all workers that get requests", formula.Integer, sum(Waiting)),
		all("running_total", "running, of all of them", formula.Integer, sum(Running)),
		all("in_flight_total", "both", formula.Integer, sum(InFlight)),
		all("held", "requests that the router holds back", formula.Integer, sum(Held)),
		all("requests_per_second", "requests that arrived in a second, over `rate_window`", formula.Number, sum(Rate)),
		all("input_tokens_per_second", "tokens of their prompts", formula.Number, sum(InputRate)),
		all("output_tokens_per_second", "tokens that workers gave", formula.Number, sum(OutputRate)),
		known(all("workers", "the number of workers that was wanted last, including starting workers", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Workers) })),
		known(all("starting", "workers that get no requests yet", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Starting) })),
		known(all("leaving", "workers that finish what they have and get nothing new", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Leaving) })),
		all("missing", "workers with a running server that are not in the scrape", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Missing) }),
		all("ready", "workers that got requests at the scrape", formula.Integer, func(_ *Config, s *Signals) float64 { return float64(s.Ready) }),
		known(all("least", "`min` of the file", formula.Integer, func(c *Config, _ *Signals) float64 { return float64(c.Min) })),
		known(all("most", "`max` of the file", formula.Integer, func(c *Config, _ *Signals) float64 { return float64(c.Max) })),
		all("signal_age", "ms since the scrape", formula.Number, func(_ *Config, s *Signals) float64 { return float64(s.Now - s.At) }),
		known(all("now", "ms since the start", formula.Number, func(_ *Config, s *Signals) float64 { return float64(s.Now) })),
	}
}
