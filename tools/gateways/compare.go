package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// comparison is a gateway with one of its policies, and the same policy of package router/policy.
type comparison struct {
	program, kind string // name of the gateway program, and kind of the servers
	theirs        string // name of the policy in the gateway
	args          []string
	ours          policy.Name
	settings      string // settings for --router-config
	variant       string // suffix of the name
	workers       int
	sessions      int  // number of sessions with several requests; 0: requests have no session
	draws         bool // the policy draws two workers and chooses the one with less load
	ties          bool // ties between equal workers are broken at random
	open          int  // usual maximum number of requests without an answer; 0: 12
	evicts        bool // blocks are evicted from the tree between bursts of requests
}

// urlsHere is a placeholder in settings for the URLs of the workers.
const urlsHere = "URLS"

// evictionSecs is the time between evictions in comparisons with evictions. burst is the number of requests between
// two evictions.
const (
	evictionSecs = 4
	burst        = 100
)

// steadyWorkers prevents smg from dropping workers with delayed answers.
const steadyWorkers = "--worker-wedge-secs=86400"

func listCases() []comparison {
	const never, tight = `"eviction_interval_secs":86400`, `"cache_threshold":0.5,"balance_abs_threshold":2,"balance_rel_threshold":1.2`
	var all []comparison
	for _, program := range []string{"vllm-router", "sglang-router"} {
		for _, kind := range []string{"vllm", "sglang"} {
			c := comparison{
				program: program, kind: kind, theirs: "cache_aware", args: []string{"--eviction-interval-secs=86400"},
				ours: "cache_aware", settings: `{"gateway":"` + program + `",` + never + `}`, workers: 4,
			}
			if program == "vllm-router" && kind == "sglang" { // vllm-router gets no tokens from SGLang servers, so no prompt matches
				c.settings = `{"gateway":"vllm-router","cache_threshold":1,` + never + `}`
				all = append(all, c)
				continue
			}
			all = append(all, c)
			c.args = append(c.args, "--cache-threshold=0.5", "--balance-abs-threshold=2", "--balance-rel-threshold=1.2")
			c.settings, c.variant = `{"gateway":"`+program+`",`+tight+`,`+never+`}`, "tight"
			all = append(all, c)
		}
	}
	for _, kind := range []string{"vllm", "sglang"} {
		c := comparison{
			program: "smg", kind: kind, theirs: "cache_aware", args: []string{"--eviction-interval-secs=86400", steadyWorkers},
			ours: "cache_aware", settings: `{"gateway":"smg",` + never + `}`, workers: 4, ties: true,
		}
		all = append(all, c)
		c.args = append(c.args, "--cache-threshold=0.5", "--balance-abs-threshold=2", "--balance-rel-threshold=1.2")
		c.settings, c.variant = `{"gateway":"smg",`+tight+`,`+never+`}`, "tight"
		all = append(all, c)
		c.args = append(c.args, "--cache-threshold=0.1", "--balance-abs-threshold=64", "--balance-rel-threshold=1")
		c.settings, c.variant, c.open = `{"gateway":"smg","cache_threshold":0.1,"balance_rel_threshold":1,`+never+`}`, "load", 120
		all = append(all, c)
	}
	all = append(all, listEvictions()...)
	for _, name := range []policy.Name{policy.ConsistentHash, policy.StickyLeastLoaded} {
		all = append(all, comparison{program: "vllm-router", kind: "vllm", theirs: string(name), ours: name,
			settings: `{"worker_url":"` + urlsHere + `"}`, workers: 5, sessions: 300})
	}
	for _, kind := range []string{"vllm", "sglang"} {
		all = append(all, comparison{program: "smg", kind: kind, theirs: "consistent_hashing", args: []string{steadyWorkers},
			ours: policy.ConsistentHash, settings: `{"gateway":"smg","worker_url":"` + urlsHere + `"}`, workers: 5, sessions: 300})
	}
	for _, program := range []string{"vllm-router", "smg"} {
		all = append(all, comparison{program: program, kind: "vllm", theirs: "power_of_two", ours: "p2c", workers: 4, draws: true})
	}
	return append(all, comparison{program: "smg", kind: "sglang", theirs: "power_of_two", ours: "p2c", workers: 4, draws: true})
}

// listEvictions returns the cases with evictions from the tree of the gateway.
func listEvictions() (all []comparison) {
	for _, x := range []struct {
		program, kind string
		most          int // maximum characters in the tree
		abs           int // balance_abs_threshold of the gateway
		extra         []string
	}{{"sglang-router", "sglang", 1500, 8, nil}, {"vllm-router", "vllm", 6000, 2, nil}, {"smg", "sglang", 6000, 8, []string{steadyWorkers}}} {
		all = append(all, comparison{
			program: x.program, kind: x.kind, theirs: "cache_aware", variant: "evictions", ours: "cache_aware", workers: 4, ties: x.program == "smg", evicts: true,
			args: append([]string{
				fmt.Sprintf("--eviction-interval-secs=%d", evictionSecs), fmt.Sprintf("--max-tree-size=%d", x.most), "--log-level=debug",
				"--cache-threshold=0.3", fmt.Sprintf("--balance-abs-threshold=%d", x.abs), "--balance-rel-threshold=1.2",
			}, x.extra...),
			settings: fmt.Sprintf(`{"gateway":%q,"cache_threshold":0.3,"balance_abs_threshold":%d,"balance_rel_threshold":1.2,"eviction_interval_secs":%d,"max_tree_size":%d}`,
				x.program, x.abs, evictionSecs, x.most),
		})
	}
	return all
}

func (c *comparison) name() string {
	return strings.Join(strings.Fields(c.program+" "+c.kind+" "+c.theirs+" "+c.variant), " ")
}

// comparesTokens reports whether the gateway compares tokens instead of characters.
func (c *comparison) comparesTokens() bool { return c.program == "vllm-router" && c.kind == "vllm" }

func (c *comparison) file() string { return strings.ReplaceAll(c.name(), " ", "-") + ".txt" }

// result is the outcome of a comparison.
type result struct {
	equal, differ, drawn int
	first                string // description of the first difference
	lines                []string
}

func (r *result) tally() string {
	text := fmt.Sprintf("%d equal, %d differ", r.equal, r.differ)
	if r.drawn > 0 {
		text += fmt.Sprintf(", %d drawn", r.drawn)
	}
	if r.differ > 0 {
		text += "; the first: " + r.first
	}
	return text
}

func (r *result) write(path string) error {
	return os.WriteFile(path, []byte(strings.Join(r.lines, "\n")+"\n"), 0o644)
}

// request is a request that the gateway has placed and that has no answer yet.
type request struct {
	id     int
	worker int
	free   chan struct{}
	done   chan error
}

// pass is a running comparison.
type pass struct {
	*comparison
	lines   []string
	fleet   *fleet
	twins   []*twin
	tree    *prompt.Tree
	rand    *rand.Rand
	order   []int // workers of the fleet in the order of the gateway
	choice  int   // worker of the current request
	seen    router.Candidates
	waiting []request

	evictions int // evictions in the gateway's log at the latest call of awaitEviction
}

// twin is the policy of this program and the outcome of its choices. A gateway with evictions has several twins with
// different initial counts of uses. The gateway counts one match in eight as a use, and the count at the start of the
// gateway is unknown.
type twin struct {
	policy router.Policy
	uses   int
	tied   bool // the worker of the current request was drawn at random
	result
}

// usesBefore is the number of twins of a gateway with evictions.
const usesBefore = 8

// compare runs a gateway and compares n requests.
func (c *comparison) compare(program, live string, n int, seed uint64) (*result, error) {
	f, err := startFleet(live, c.kind, c.workers, program, append([]string{"--policy=" + c.theirs}, c.args...))
	if err != nil {
		return nil, err
	}
	defer f.stop()
	own := *c
	p := &pass{comparison: &own, fleet: f, tree: prompt.NewTree(1, 1, prompt.Options{}), rand: rand.New(rand.NewPCG(seed, 0))}
	p.settings = strings.ReplaceAll(p.settings, urlsHere, f.urlOfWorkers())
	if c.sessions > 0 || c.draws || c.ties {
		for w := range c.workers {
			p.order = append(p.order, w)
		}
	}
	p.lines = append(p.lines, fmt.Sprintf("router policy=%s workers=%d words=%v settings=%s", c.ours, c.workers, c.comparesTokens(), p.settings))
	p.seen.Running = make([]int32, c.workers)
	for w := range c.workers {
		p.seen.Workers = append(p.seen.Workers, sim.WorkerID(w))
	}
	if err := p.addTwins(); err != nil {
		return nil, err
	}
	most := 12
	if c.open > 0 {
		most = c.open
	}
	texts := newTexts(p.rand)
	for i := range n {
		text, session := texts.next(), -1
		if len(p.order) < c.workers && i < c.workers {
			text = string(rune('A'+i)) + " " + text // a delayed answer, so that the next request goes to the next worker
		}
		if c.sessions > 0 {
			text, session = fmt.Sprintf("r%d", i), p.rand.IntN(c.sessions)
		}
		if c.evicts && i%burst == 0 {
			if err := p.awaitEviction(); err != nil {
				return nil, err
			}
		}
		if err := p.send(i, text, session); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
		for len(p.waiting) > 0 && i+1 >= c.workers && p.rand.IntN(most) < len(p.waiting) {
			if err := p.release(p.rand.IntN(len(p.waiting))); err != nil {
				return nil, err
			}
		}
	}
	for len(p.waiting) > 0 {
		if err := p.release(0); err != nil {
			return nil, err
		}
	}
	return p.takeBest(), nil
}

// takeBest returns the result of the twin with the fewest differences, and the lines of the pass.
func (p *pass) takeBest() *result {
	best := slices.MinFunc(p.twins, func(a, b *twin) int { return a.differ - b.differ })
	best.lines = p.lines
	if len(p.twins) > 1 {
		best.lines = slices.Insert(p.lines, 1, fmt.Sprintf("uses %d", best.uses))
	}
	return &best.result
}

// addTwins creates the policies of this program.
func (p *pass) addTwins() error {
	n := 1
	if p.evicts {
		n = usesBefore
	}
	for i := range n {
		t := &twin{uses: i}
		var err error
		if t.policy, err = p.newPolicy(t); err != nil {
			return err
		}
		for range i { // each match of a prompt without tokens increases the count
			t.policy.Choose(&sim.Request{ID: -1}, &p.seen)
		}
		p.twins = append(p.twins, t)
	}
	return nil
}

func (p *pass) newPolicy(t *twin) (router.Policy, error) {
	o := policy.Options{Tree: p.tree, BlockTokens: 1, Among: func(equal []sim.WorkerID) sim.WorkerID { return p.among(t, equal) }}
	if p.settings != "" {
		s, err := policy.ParseGatewaySettings(p.ours, []byte(p.settings))
		if err != nil {
			return nil, err
		}
		o.Gateway = &s
	}
	return policy.New(p.ours, o)
}

// awaitEviction waits until the gateway has evicted from its tree, and advances the simulated clock. awaitEviction
// returns an error if the gateway evicted since the previous call.
func (p *pass) awaitEviction() error {
	before := p.fleet.log.count(evictionOver)
	if p.evictions > 0 && before != p.evictions {
		return errors.New("the gateway has evicted between two requests of a burst")
	}
	for begin := time.Now(); p.fleet.log.count(evictionOver) == before; time.Sleep(time.Millisecond) {
		if time.Since(begin) > startTime {
			return errors.New("the gateway does not evict")
		}
	}
	time.Sleep(50 * time.Millisecond) // the gateway prints a line for each tree
	p.evictions = p.fleet.log.count(evictionOver)
	p.seen.Now += sim.Time(1000 * evictionSecs)
	p.lines = append(p.lines, "evict")
	return nil
}

// among returns the worker that the gateway drew, if it is one of the equal workers.
func (p *pass) among(t *twin, equal []sim.WorkerID) sim.WorkerID {
	if theirs := sim.WorkerID(p.choice); slices.Contains(equal, theirs) {
		t.tied = true
		return theirs
	}
	return equal[0]
}

// send sends a request to the gateway and compares the chosen worker.
func (p *pass) send(id int, text string, session int) error {
	var free chan struct{}
	if id < p.workers || p.rand.IntN(2) == 0 {
		free = make(chan struct{})
	}
	at, done, err := p.fleet.ask(text, session, free)
	if err != nil {
		return err
	}
	theirs := slices.Index(p.order, at)
	if theirs < 0 {
		theirs, p.order = len(p.order), append(p.order, at)
	}
	ids := p.split(text)
	q := &sim.Request{ID: sim.RequestID(id), InputTokens: len(ids), Prompt: p.tree.Add(ids, len(ids)), Session: int32(session)}
	p.choice = theirs
	p.lines = append(p.lines, fmt.Sprintf("arrive %d text=%s session=%d worker=%d", id, strings.ReplaceAll(text, " ", "_"), session, theirs))
	for _, t := range p.twins {
		p.compareChoice(t, q)
	}
	p.seen.Running[theirs]++
	p.waiting = append(p.waiting, request{id, theirs, free, done})
	if free == nil {
		return p.release(len(p.waiting) - 1)
	}
	return nil
}

// compareChoice compares the choice of t with the choice of the gateway.
func (p *pass) compareChoice(t *twin, q *sim.Request) {
	ours := -1
	t.tied = false
	if !p.draws {
		ours = int(t.policy.Choose(q, &p.seen).Worker)
	}
	switch {
	case p.draws && p.mayDraw(p.choice), t.tied:
		t.drawn++
	case ours == p.choice:
		t.equal++
	default:
		if t.differ++; t.differ == 1 {
			t.first = fmt.Sprintf("request %d to worker %d, here to %d, of loads %v", q.ID, p.choice, ours, p.seen.Running)
		}
	}
}

// mayDraw reports whether at least one more worker has the same or a higher load.
func (p *pass) mayDraw(worker int) bool {
	for w, load := range p.seen.Running {
		if w != worker && load >= p.seen.Running[worker] {
			return true
		}
	}
	return false
}

// split returns the units of a text that the gateway compares. For vLLM servers, vllm-router compares tokens, and
// each word is one token. In all other cases gateways compare characters.
func (p *pass) split(text string) (ids []uint64) {
	for i := range len(text) {
		if !p.comparesTokens() || text[i] != ' ' {
			ids = append(ids, uint64(text[i]))
		}
	}
	return ids
}

// release lets the proxy send the answer of a request, and waits for the answer.
func (p *pass) release(i int) error {
	x := p.waiting[i]
	p.waiting = slices.Delete(p.waiting, i, i+1)
	if x.free != nil {
		close(x.free)
	}
	if err := <-x.done; err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond) // wait until the gateway no longer counts the request
	p.seen.Running[x.worker]--
	p.lines = append(p.lines, fmt.Sprintf("finish %d", x.id))
	return nil
}

// texts generates prompts with shared prefixes. Each word is one letter.
type texts struct {
	rand   *rand.Rand
	system string
	groups []string
}

const groupsOfTexts = 12

func newTexts(r *rand.Rand) *texts {
	t := &texts{rand: r}
	t.system = t.letters(20)
	for range groupsOfTexts {
		t.groups = append(t.groups, t.letters(40))
	}
	return t
}

func (t *texts) letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(t.rand.IntN(6))
	}
	return string(b)
}

// next returns a prompt.
func (t *texts) next() string {
	g := t.rand.IntN(len(t.groups))
	text := t.groups[g][:1+t.rand.IntN(40)]
	if g%2 == 0 {
		text = t.system[:t.rand.IntN(21)] + text
	}
	text += t.letters(1 + t.rand.IntN(60))
	return strings.Join(strings.Split(text, ""), " ")
}
