package policy

import (
	"reflect"
	"slices"

	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// oracle is the prefix of the names of facts that no real router knows when it chooses.
const oracle = "oracle."

// sight is the facts that a Text reads.
type sight struct {
	Options
	language   *formula.Language
	sent       *sent // the prompts sent to each worker; nil if the policy does not read them
	request    *sim.Request
	candidates *router.Candidates
	workers    []sim.WorkerID // the remaining candidates
	kinds      []float64      // the number of the kind of each of Workers
	classes    []float64      // the number of the name of each of Classes
	groups     map[int]int    // the number of a prefix group, by the first node of its prompts
}

// Worker is the facts about a worker other than its load.
type Worker struct {
	Kind  string  // in a mix of workers
	Speed float64 // relative to its engine
	Cost  float64 // per hour, by default prices; 0: unknown
}

// worker returns the facts about a worker. Workers added later have the facts of the last known worker.
func (s *sight) worker(w sim.WorkerID) Worker {
	if len(s.Workers) == 0 {
		return Worker{Speed: 1}
	}
	return s.Workers[min(int(w), len(s.Workers)-1)]
}

// kindNumber returns the number of the kind of a worker.
func kindNumber(s *sight, w sim.WorkerID) float64 {
	if len(s.kinds) == 0 {
		return s.language.NumberOf("")
	}
	return s.kinds[min(int(w), len(s.kinds)-1)]
}

// metricsAge returns the age of the oldest of the workers' metrics.
func (s *sight) metricsAge() sim.Time {
	c := s.candidates
	return max(c.AgeOf(router.Running), c.AgeOf(router.Waiting), c.AgeOf(router.KVUsage))
}

// prefixGroup returns the number of the group of requests with the same first block. Groups are numbered in the order
// of their first requests. The result is -1 if the request has no full block.
func (s *sight) prefixGroup() int {
	p := &s.request.Prompt
	if p.Blocks == 0 {
		return -1
	}
	first := -int(p.Seed) // an unshared prompt
	if !p.Unique() {
		first = int(p.Nodes[0])
	}
	group, ok := s.groups[first]
	if !ok {
		group = len(s.groups)
		s.groups[first] = group
	}
	return group
}

// passTokens returns the token budget of a pass on a worker.
func (s *sight) passTokens(w sim.WorkerID) int {
	budget := s.MaxBatchedTokens
	if int(w) < len(s.WorkerBatches) {
		budget = s.WorkerBatches[w]
	}
	if budget == 0 {
		return unlimitedTokens
	}
	return budget
}

// fact is a fact that the expressions of a Text may read.
type fact struct {
	formula.Name
	help string
	need func(n *router.Needs, role scheduler.Role) // adds the facts that the dispatcher must keep; nil: none
	load func(s *sight, to []float64)               // sets the values
}

// makeSight returns the facts of a Text without a request.
func makeSight(o Options) sight {
	s := sight{Options: o, language: textLanguage(), groups: map[int]int{}}
	for _, w := range o.Workers {
		s.kinds = append(s.kinds, s.language.NumberOf(w.Kind))
	}
	for _, c := range o.Classes {
		s.classes = append(s.classes, s.language.NumberOf(c.Name))
	}
	return s
}

// rememberSent makes s remember the sent blocks of each worker.
func (s *sight) rememberSent(m TextMemory) {
	capacity := m.Blocks
	if capacity == 0 && m.For == 0 {
		capacity = s.CacheBlocks
	}
	s.sent = makeSent(s.Tree, int64(capacity), m.For)
}

// textLanguage returns the language of filters and scorers.
func textLanguage() *formula.Language {
	var names []formula.Name
	for _, f := range listFacts() {
		names = append(names, f.Name)
	}
	return formula.NewLanguage(names)
}

// listFacts returns all facts: facts of a worker, of the request, and of the cluster.
func listFacts() []fact {
	return slices.Concat(listLoads(), listTraits(), listRequestFacts())
}

// ofEach returns a fact with a value per worker.
func ofEach(name string, kind formula.Kind, help string, f func(s *sight, w sim.WorkerID) float64) fact {
	return fact{Name: formula.Name{Name: name, Kind: kind, Each: true}, help: help, load: func(s *sight, to []float64) {
		for i, w := range s.workers {
			to[i] = f(s, w)
		}
	}}
}

// ofAll returns a fact with a single value for all workers.
func ofAll(name string, kind formula.Kind, help string, f func(s *sight) float64) fact {
	return fact{Name: formula.Name{Name: name, Kind: kind}, help: help, load: func(s *sight, to []float64) { to[0] = f(s) }}
}

// gatherColumn returns a fact of each worker from a column of the dispatcher.
func gatherColumn[T int32 | int64](name, help string, column func(c *router.Candidates) []T, need func(n *router.Needs, role scheduler.Role)) fact {
	return fact{
		Name: formula.Name{Name: name, Kind: formula.Integer, Each: true}, help: help, need: need,
		load: func(s *sight, to []float64) {
			from := column(s.candidates)
			for i, w := range s.workers {
				to[i] = float64(from[w])
			}
		},
	}
}

// listLoads returns the facts about the load and the cached blocks of a worker, as the router knows them.
func listLoads() []fact {
	blocks := func(n *router.Needs, role scheduler.Role) {
		n.Blocks = n.Blocks || role != scheduler.Prefill
		n.Shared = n.Shared || role == scheduler.Aggregated
	}
	all := []fact{
		gatherColumn("requests", "requests in flight on the worker", func(c *router.Candidates) []int32 { return c.Running }, nil),
		gatherColumn("tokens_to_compute", "uncached prompt tokens of requests on the worker that have no first token yet", func(c *router.Candidates) []int64 { return c.Tokens }, func(n *router.Needs, role scheduler.Role) { n.Tokens = n.Tokens || role != scheduler.Decode }),
		gatherColumn("active_blocks", "distinct prompt blocks of the requests in flight on the worker", func(c *router.Candidates) []int64 { return c.Blocks }, blocks),
		gatherColumn("active_overlap", "leading blocks of the prompt that are among active_blocks", func(c *router.Candidates) []int32 { return c.Active }, blocks),
		gatherColumn(cachedBlocks, "leading blocks of the prompt in the prefix cache of the worker", func(c *router.Candidates) []int32 { return c.Overlap }, func(n *router.Needs, role scheduler.Role) { n.Overlap = n.Overlap || role != scheduler.Decode }),
		ofEach(sentBlocks, formula.Integer, "leading blocks of the prompt that the router recently sent to the worker", func(s *sight, w sim.WorkerID) float64 {
			return float64(s.sent.match(s.candidates.Now, w, &s.request.Prompt))
		}),
		ofEach("running", formula.Integer, "running requests that the worker reported last", func(s *sight, w sim.WorkerID) float64 { return float64(s.candidates.Metrics[w].Running) }),
		ofEach("waiting", formula.Integer, "waiting requests that the worker reported last", func(s *sight, w sim.WorkerID) float64 { return float64(s.candidates.Metrics[w].Waiting) }),
		ofEach("kv_usage", formula.Number, "share of KV blocks in use that the worker reported last, 0 to 1", func(s *sight, w sim.WorkerID) float64 { return s.candidates.Metrics[w].KV }),
		ofEach("signal_age", formula.Number, "age of the oldest of running, waiting and kv_usage, in ms", func(s *sight, w sim.WorkerID) float64 { return float64(s.metricsAge()) }),
	}
	for i := range all {
		switch {
		case IsMetric(all[i].Name.Name):
			all[i].need = func(n *router.Needs, _ scheduler.Role) { n.Metrics = true }
		case all[i].need == nil:
			all[i].need = needRequests
		}
	}
	return all
}

// The constants are facts with further needs: cache events, and the sent blocks that the router remembers.
const (
	cachedBlocks = "cached_blocks"
	sentBlocks   = "sent_blocks"
)

// needRequests requires a dispatcher that follows requests.
func needRequests(*router.Needs, scheduler.Role) {}

// IsMetric reports whether a fact is part of the workers' metrics.
func IsMetric(name string) bool {
	return slices.Contains([]string{"running", "waiting", "kv_usage", "signal_age"}, name)
}

// listTraits returns the constant facts about a worker.
func listTraits() []fact {
	return []fact{
		ofEach("index", formula.Integer, "number of the worker, from 0", func(_ *sight, w sim.WorkerID) float64 { return float64(w) }),
		ofEach("kind", formula.Text, "kind of the worker in a mix, as in --workers h100:4,l40s:8", kindNumber),
		ofEach("speed", formula.Number, "relative speed of the worker (--worker-speed)", func(s *sight, w sim.WorkerID) float64 { return s.worker(w).Speed }),
		ofEach("cost", formula.Number, "price of the worker for one hour, by the default prices of GPUs", func(s *sight, w sim.WorkerID) float64 { return s.worker(w).Cost }),
		ofEach("pass_tokens", formula.Integer, "token budget of one pass of the worker", func(s *sight, w sim.WorkerID) float64 { return float64(s.passTokens(w)) }),
	}
}

// listRequestFacts returns the facts about the request and about the cluster.
func listRequestFacts() []fact {
	return []fact{
		ofAll("request.input_tokens", formula.Integer, "prompt tokens of the request", func(s *sight) float64 { return float64(s.request.InputTokens) }),
		ofAll("request.blocks", formula.Integer, "full blocks of the prompt of the request", func(s *sight) float64 { return float64(s.request.Prompt.Blocks) }),
		ofAll("request.prefix_group", formula.Integer, "number of the group of requests with the same first prompt block; -1 if the prompt has no full block", func(s *sight) float64 { return float64(s.prefixGroup()) }),
		ofAll(requestClass, formula.Text, `name of the class of the request; "default" if it has no class`, classNumber),
		ofAll("request.deadline", formula.Number, "time to first token that the class of the request requires, in ms; infinite without a requirement", func(s *sight) float64 { return router.DeadlineOf(s.Classes, s.request.Class) }),
		ofAll("request.weight", formula.Number, "weight of the class of the request; default 1", func(s *sight) float64 { return router.WeightOf(s.Classes, s.request.Class) }),
		ofAll("request.priority", formula.Integer, "priority of the request: lower values are more urgent; 0 if the trace has no priority", func(s *sight) float64 { return float64(s.request.Priority) }),
		ofAll("request.session", formula.Integer, "number of the session of the request; negative without a session", func(s *sight) float64 { return float64(s.request.Session) }),
		withClock(ofAll("request.waited", formula.Number, "time since the arrival of the request, in ms: above 0 if it was held or retried", func(s *sight) float64 { return float64(s.candidates.Now - s.request.Arrived) })),
		ofAll(oracle+"output_tokens", formula.Integer, "answer tokens of the request, unknown to real routers", func(s *sight) float64 { return float64(s.request.OutputTokens) }),
		ofAll("workers", formula.Integer, "number of workers that all previous filters kept", func(s *sight) float64 { return float64(len(s.workers)) }),
		withClock(ofAll("queued", formula.Integer, "requests that the router holds", func(s *sight) float64 { return float64(s.candidates.Queued) })),
		withClock(ofAll("now", formula.Number, "time since the start of the run, in ms", func(s *sight) float64 { return float64(s.candidates.Now) })),
		withClock(ofAll("index_age", formula.Number, "age of cached_blocks, in ms", func(s *sight) float64 { return float64(s.candidates.AgeOf(router.Caches)) })),
		ofAll("block_tokens", formula.Integer, "number of tokens per KV block", func(s *sight) float64 { return float64(s.BlockTokens) }),
		ofAll("role", formula.Text, `role of the workers: "aggregated" (prefill and decode), "prefill" or "decode"`, func(s *sight) float64 { return s.language.NumberOf(s.Role.String()) }),
	}
}

// withClock returns f as a fact for which the dispatcher must follow requests.
func withClock(f fact) fact {
	f.need = needRequests
	return f
}

// Fact is a name that expressions may use, with its description.
type Fact struct{ Name, Help string }

// Facts returns the facts that filters and scorers may read.
func Facts() []Fact {
	var all []Fact
	for _, f := range listFacts() {
		all = append(all, Fact{f.Name.Name, f.help})
	}
	return all
}

// CheckFilter returns the error in the expression of a filter, nil if there is none. The error is a *formula.Error.
func CheckFilter(expression string) error {
	return checkExpression(textLanguage(), expression, formula.Bool)
}

// CheckScore returns the error in the expression of a scorer, nil if there is none.
func CheckScore(expression string) error {
	return checkExpression(textLanguage(), expression, formula.Number)
}

// CheckHold returns the error in an expression for TextHold.Above, nil if there is none. The value of the expression
// must be at least 0 for passes of 8192 tokens.
func CheckHold(expression string) error {
	if err := checkExpression(holdLanguage(), expression, formula.Number); err != nil {
		return err
	}
	_, err := (&TextHold{Above: expression}).findLimit(8192)
	return err
}

func checkExpression(l *formula.Language, expression string, kind formula.Kind) error {
	if _, err := l.NewProgram().Add(expression, kind); err != nil {
		return err
	}
	return nil
}

// LooksAt returns the names of the facts that t reads.
func (t *Text) LooksAt() []string {
	p := textLanguage().NewProgram()
	for _, f := range t.Filters {
		if f.Sample == 0 {
			_, _ = p.Add(f.Keep, formula.Bool) // NewText reports errors
		}
	}
	for i := range t.Scorers {
		_, _ = p.Add(t.Scorers[i].expression(), formula.Number)
	}
	return namesOf(p)
}

// namesOf returns the names of the facts that a program reads.
func namesOf(p *formula.Program) []string {
	var names []string
	all := listFacts()
	for i := range p.Inputs() {
		names = append(names, all[p.NameOf(i)].Name.Name)
	}
	return names
}

// FollowsCaches reports whether t reads the cached blocks of workers.
func (t *Text) FollowsCaches() bool { return slices.Contains(t.LooksAt(), cachedBlocks) }

// Constants returns the types of this package that have constant values with functions.
func Constants() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[fact](), reflect.TypeFor[crossingFact]()}
}
