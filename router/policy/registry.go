// Package policy holds the policies by which requests find workers, each in a
// separate file, and the registry that names them.
//
// Read registry.go, then any policy; kv.go is the longest one, and draw.go what
// it does at a temperature above 0; picker.go with scorers.go is the router of an inference pool,
// text.go with textfacts.go the policy of a file, and admission.go what such a file decides
// before.
package policy

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Name is the name of a policy, as flags take it. "" is the default policy.
type Name string

// The policies that other packages know by name; the rest are in the registry alone.
const (
	RoundRobin Name = "round_robin"
	KV         Name = "kv"

	ConsistentHash    Name = "consistent_hash"
	StickyLeastLoaded Name = "sticky_least_loaded"
)

// Info is a row of the registry.
type Info struct {
	Name   Name
	Alias  string // name is what flags take or reports print; "": none
	Report string // what reports and run directories call it
	Help   string // what it does, in one line
	// Caches reports whether it reads what workers have cached and is configured by a router.Config.
	Caches bool
	// MinWorkers is how many workers a pool that does all of the work needs.
	MinWorkers int
	Draws      bool // workers at random
	Gateway    bool // it is configured by GatewaySettings
	Prompts    bool // it keeps the prompts that it has sent

	make func(Options) (router.Policy, error)
}

// All returns the registry, the default policy first.
func All() []Info {
	return []Info{
		{Name: RoundRobin, Alias: "rr", Report: "round_robin", MinWorkers: 1, make: newRoundRobin,
			Help: "workers in turn"},
		{Name: KV, Alias: "kv_router", Report: "kv_router", MinWorkers: 2, Caches: true, make: newKV,
			Help: "the worker with the lowest cost, by its cache and its load"},
		{Name: "random", Report: "random", MinWorkers: 1, Draws: true, make: newRandom,
			Help: "any worker, all alike"},
		{Name: "least-loaded", Report: "least-loaded", MinWorkers: 1, make: newLeastLoaded,
			Help: "the worker with the fewest requests, then the fewest prompt tokens to compute"},
		{Name: "p2c", Alias: "power_of_two", Report: "p2c", MinWorkers: 1, Draws: true, make: newTwoChoices,
			Help: "the less loaded of two random workers (power of two choices)"},
		{Name: "session", Report: "session", MinWorkers: 1, make: newSession,
			Help: "the same worker for all turns of a session, unless it is overloaded"},
		{Name: "cache_aware", Report: "cache_aware", MinWorkers: 1, Gateway: true, Prompts: true, make: newCacheAware,
			Help: "the worker that most of the prompt was sent to before, as gateways do; else the worker with the fewest requests"},
		{Name: ConsistentHash, Report: string(ConsistentHash), MinWorkers: 1, Gateway: true, make: newConsistentHash,
			Help: "the same worker for all turns of a session, by its place on a ring of hashes, as vllm-router does"},
		{Name: StickyLeastLoaded, Report: string(StickyLeastLoaded), MinWorkers: 1, Gateway: true, make: newStickyLeastLoaded,
			Help: "the worker with the fewest sessions for a new session, and the same worker for its turns, as vllm-router does"},
	}
}

// Options are what a policy is made of.
type Options struct {
	Config           router.Config    // read by policies that read caches
	Role             scheduler.Role   // of the workers
	Prefills         bool             // decode workers compute prompts, too
	BlockTokens      int              // tokens of an engine's block; read by policies that read caches
	MaxBatchedTokens int              // token budget of a pass of an engine; 0: no bound
	WorkerBatches    []int            // that of each worker, where they differ
	Seed             uint64           // of what is drawn; 0 is 42
	Tree             *prompt.Tree     // that of the prompts; read by a Picker and by policies that keep prompts
	CacheBlocks      int              // KV blocks of a worker; read by a Picker
	Workers          []Worker         // what is known of each worker; read by a Text
	Gateway          *GatewaySettings // read by the policies of gateways; nil: the defaults
	// Among returns one of several workers that a policy of smg draws from, or that sglang-router finds in a hash map; nil: they are drawn by the
	// seed, or the one with the lowest id.
	Among func([]sim.WorkerID) sim.WorkerID
	// Classes are those of requests; nil if there are none; read by a Text.
	Classes []router.ClassTerms
}

// New returns a new policy of the given name.
func New(name Name, o Options) (router.Policy, error) {
	p := name.Info()
	if p.make == nil {
		known, err := Parse(string(name))
		if err == nil {
			err = excerpt.Errorf("router is %q, must be %s", string(name), string(known)) // name is what flags take
		}
		return nil, err
	}
	return p.make(o)
}

// Info returns the row of the registry; of a name that is not there it has the
// name alone.
func (n Name) Info() Info {
	all := All()
	if n == "" {
		return all[0]
	}
	for _, p := range all {
		if p.Name == n {
			return p
		}
	}
	return Info{Name: n, Report: string(n), MinWorkers: 1}
}

// String returns the name in reports of the policy.
func (n Name) String() string { return n.Info().Report }

// Parse returns the policy that flags or reports call so.
func Parse(text string) (Name, error) {
	want := ""
	for i, p := range All() {
		if text == string(p.Name) || text == p.Alias || text == p.Report {
			return p.Name, nil
		}
		if i > 0 {
			want += ", "
		}
		want += string(p.Name)
	}
	return "", excerpt.Errorf("router is %q, must be one of %s", text, want)
}

// work returns the role of the work that the workers do.
func (o *Options) work() scheduler.Role {
	if o.Prefills {
		return scheduler.Aggregated
	}
	return o.Role
}

const defaultSeed = 42

// newRand returns the random numbers of a policy.
func newRand(o Options) *rand.Rand {
	seed := o.Seed
	if seed == 0 {
		seed = defaultSeed
	}
	return sim.NewRand(seed, "router "+o.Role.String())
}
