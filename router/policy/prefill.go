package policy

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Crossing is the state for the decision between a prefill worker and a decode worker.
type Crossing struct {
	Request *sim.Request
	Cached  int // leading tokens of its prompt that a decode worker has cached, the maximum over decode workers
	// Prefill and Decode are the loads of both pools, each with at least one worker.
	Prefill, Decode *router.Candidates
	// QueuedPrefill and QueuedDecode are the numbers of requests that their routers hold.
	QueuedPrefill, QueuedDecode int
	InTransfer                  int // number of KV caches in transfer
	Now                         sim.Time
}

// PrefillRule is an expression that decides whether the prompt of a Crossing goes to a prefill worker first.
type PrefillRule struct {
	program *formula.Program
	value   formula.Value
	facts   []crossingFact // by the program's inputs
}

// crossingFact is a fact that a PrefillRule may read.
type crossingFact struct {
	formula.Name
	help string
	load func(x *Crossing, to []float64)
}

// NewPrefillRule returns the rule of an expression, or its error.
func NewPrefillRule(expression string) (*PrefillRule, error) {
	all := listCrossingFacts()
	var names []formula.Name
	for _, f := range all {
		names = append(names, f.Name)
	}
	r := &PrefillRule{program: formula.NewLanguage(names).NewProgram()}
	v, err := r.program.Add(expression, formula.Bool)
	switch {
	case err != nil:
		return nil, err
	case v.Each():
		return nil, &formula.Error{Line: 1, Text: expression + " differs between workers, expected one value for all, as any(...), all(...) or with min(...)"}
	}
	r.value = v
	for i := range r.program.Inputs() {
		r.facts = append(r.facts, all[r.program.NameOf(i)])
	}
	return r, nil
}

// GoesToPrefill reports whether the rule sends a prompt to a prefill worker.
func (r *PrefillRule) GoesToPrefill(x *Crossing) bool {
	r.program.BeginBoth(len(x.Prefill.Workers), len(x.Decode.Workers))
	for i := range r.facts {
		r.facts[i].load(x, r.program.Input(i))
	}
	r.program.Run()
	return r.program.Column(r.value)[0] != 0
}

// listCrossingFacts returns all facts: facts of the request, of the cluster, and of each pool.
func listCrossingFacts() []crossingFact {
	one := func(name, help string, f func(x *Crossing) int) crossingFact {
		return crossingFact{formula.Name{Name: name, Kind: formula.Integer}, help, func(x *Crossing, to []float64) { to[0] = float64(f(x)) }}
	}
	all := []crossingFact{
		one("request.input_tokens", "prompt tokens of the request", func(x *Crossing) int { return x.Request.InputTokens }),
		one("request.priority", "priority of the request: lower values are more urgent; 0 if the trace has no priority", func(x *Crossing) int { return int(x.Request.Priority) }),
		one(oracle+"output_tokens", "answer tokens of the request, unknown to real routers", func(x *Crossing) int { return x.Request.OutputTokens }),
		one("cached_tokens", "leading tokens of the prompt in the prefix cache of a decode worker, the most of any", func(x *Crossing) int { return x.Cached }),
		one("in_transfer", "KV caches on their way from prefill to decode workers", func(x *Crossing) int { return x.InTransfer }),
		{formula.Name{Name: "now", Kind: formula.Number}, "time since the start of the run, in ms", func(x *Crossing, to []float64) { to[0] = float64(x.Now) }},
	}
	for i, pool := range [...]string{"prefill", "decode"} {
		second := i == 1
		of := func(x *Crossing) (c *router.Candidates, queued int) {
			if second {
				return x.Decode, x.QueuedDecode
			}
			return x.Prefill, x.QueuedPrefill
		}
		each := func(name, help string, column func(c *router.Candidates, w sim.WorkerID) float64) crossingFact {
			return crossingFact{formula.Name{Name: pool + "." + name, Kind: formula.Integer, Each: true, Second: second}, help, func(x *Crossing, to []float64) {
				c, _ := of(x)
				for k, w := range c.Workers {
					to[k] = column(c, w)
				}
			}}
		}
		all = append(all,
			one(pool+".workers", "workers of the "+pool+" pool", func(x *Crossing) int { c, _ := of(x); return len(c.Workers) }),
			one(pool+".queued", "requests that the router of the pool holds", func(x *Crossing) int { _, n := of(x); return n }),
			each("requests", "of each worker of the pool: requests in flight", func(c *router.Candidates, w sim.WorkerID) float64 { return float64(c.Running[w]) }),
			each("tokens_to_compute", "of each worker of the pool: uncached prompt tokens of requests that have no first token yet", func(c *router.Candidates, w sim.WorkerID) float64 { return float64(c.Tokens[w]) }))
	}
	return all
}

// DescribePrefillRule returns an expression in one line. DescribePrefillRule marks the fact that no real router
// knows.
func DescribePrefillRule(expression string) string {
	text := strings.Join(strings.Fields(expression), " ")
	if strings.Contains(expression, oracle) {
		text += fmt.Sprintf(" (%s is what no real router knows)", oracle+"output_tokens")
	}
	return text
}
