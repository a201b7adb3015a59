// Package policy contains the routing policies, each in a separate file, and the registry of their names.
//
// Read registry.go, then any policy. kv.go is the longest, with draw.go for temperatures above 0. picker.go with
// scorers.go is the router of an inference pool. text.go with textfacts.go is the policy of a file, and admission.go
// is the admission of such a file.
package policy

import (
	"math/rand/v2"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Name is the name of a policy in flags. "" is the default policy.
type Name string

// The constants are the names that other packages use. All other names are only in the registry.
const (
	RoundRobin Name = "round_robin"
	KV         Name = "kv"

	ConsistentHash    Name = "consistent_hash"
	StickyLeastLoaded Name = "sticky_least_loaded"
)

// Info is an entry of the registry.
type Info struct {
	Name   Name
	Alias  string // another name in flags or reports; "": none
	Report string // name in reports and run directories
	Help   string // description in one line
	// Caches reports whether the policy reads cached blocks of workers and is configured by a router.Config.
	Caches bool
	// MinWorkers is the minimum number of workers of an aggregated pool.
	MinWorkers int
	Draws      bool // the policy chooses workers at random
	Gateway    bool // GatewaySettings configure the policy
	Prompts    bool // it keeps the prompts that it has sent

	make func(Options) (router.Policy, error)
}

// All returns the entries of the registry, starting with the default policy.
func All() []Info {
	return []Info{
		{Name: RoundRobin, Alias: "rr", Report: "round_robin", MinWorkers: 1, make: newRoundRobin,
			Help: "the workers in turn (round robin)"},
		{Name: KV, Alias: "kv_router", Report: "kv_router", MinWorkers: 2, Caches: true, make: newKV,
			Help: "the worker with the lowest cost, computed from cached blocks and load"},
		{Name: "random", Report: "random", MinWorkers: 1, Draws: true, make: newRandom,
			Help: "a random worker, uniformly distributed"},
		{Name: "least-loaded", Report: "least-loaded", MinWorkers: 1, make: newLeastLoaded,
			Help: "the worker with the fewest requests, then the fewest prompt tokens to compute"},
		{Name: "p2c", Alias: "power_of_two", Report: "p2c", MinWorkers: 1, Draws: true, make: newTwoChoices,
			Help: "the worker with the lower load of two random workers (power of two choices)"},
		{Name: "session", Report: "session", MinWorkers: 1, make: newSession,
			Help: "the same worker for all turns of a session, unless it is overloaded"},
		{Name: "cache_aware", Report: "cache_aware", MinWorkers: 1, Gateway: true, Prompts: true, make: newCacheAware,
			Help: "the worker that got the longest part of the prompt before, as in gateways; without such a worker, the worker with the fewest requests"},
		{Name: ConsistentHash, Report: string(ConsistentHash), MinWorkers: 1, Gateway: true, make: newConsistentHash,
			Help: "the same worker for all turns of a session, by consistent hashing, as in vllm-router"},
		{Name: StickyLeastLoaded, Report: string(StickyLeastLoaded), MinWorkers: 1, Gateway: true, make: newStickyLeastLoaded,
			Help: "the worker with the fewest sessions for a new session, then the same worker for all its turns, as in vllm-router"},
	}
}

// Options are the parameters of a policy.
type Options struct {
	Config           router.Config    // for policies that read caches
	Role             scheduler.Role   // of the workers
	Prefills         bool             // decode workers also compute prompts
	BlockTokens      int              // tokens per engine block; for policies that read caches
	MaxBatchedTokens int              // token budget of a pass of an engine; 0: unlimited
	WorkerBatches    []int            // by worker; nil: MaxBatchedTokens
	Seed             uint64           // of random choices; 0: 42
	Tree             *prompt.Tree     // of the prompts; for a Picker and policies that keep prompts
	CacheBlocks      int              // KV blocks of a worker; for a Picker
	Workers          []Worker         // facts of each worker; for a Text
	Gateway          *GatewaySettings // for the policies of gateways; nil: the defaults
	// Among chooses among workers that smg draws from, or that sglang-router finds in a hash map. If Among is nil, a
	// random number decides for smg, and the lowest id for sglang-router.
	Among func([]sim.WorkerID) sim.WorkerID
	// Classes are the classes of requests, for a Text; nil: there are none.
	Classes []router.ClassTerms
}

// New returns a new policy of the given name.
func New(name Name, o Options) (router.Policy, error) {
	p := name.Info()
	if p.make == nil {
		known, err := Parse(string(name))
		if err == nil {
			err = excerpt.Errorf("router is %q, must be %s", string(name), string(known)) // flags require the name
		}
		return nil, err
	}
	return p.make(o)
}

// Info returns the entry of the registry. For an unknown name, the result has only the name.
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

// String returns the name of the policy in reports.
func (n Name) String() string { return n.Info().Report }

// Parse returns the policy with the given name in flags or reports.
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

// work returns the role of the workers. Decode workers that also compute prompts count as aggregated.
func (o *Options) work() scheduler.Role {
	if o.Prefills {
		return scheduler.Aggregated
	}
	return o.Role
}

const defaultSeed = 42

// newRand returns the random number generator of a policy.
func newRand(o Options) *rand.Rand {
	seed := o.Seed
	if seed == 0 {
		seed = defaultSeed
	}
	return sim.NewRand(seed, "router "+o.Role.String())
}
