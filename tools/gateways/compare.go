package main

import (
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

// comparison is a gateway with a policy, and what is the same here.
type comparison struct {
	program, kind string // of the gateway, and of the servers
	theirs        string // the policy, as the gateway calls it
	args          []string
	ours          policy.Name
	settings      string // as --router-config takes them
	variant       string // of the name
	workers       int
	sessions      int  // number of sessions that requests are turns of; 0: they have none
	draws         bool // workers are drawn: of two, the one with less load
	ties          bool // one of equal workers is drawn
	open          int  // number of requests without an answer that is seldom exceeded; 0: 12
}

// urlsHere stands in settings for the URLs of the workers.
const urlsHere = "URLS"

// steadyWorkers keeps smg from leaving out workers that hold back answers.
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
			if program == "vllm-router" && kind == "sglang" { // a prompt without tokens is known nowhere
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
		c.settings, c.variant, c.open = `{"gateway":"smg","cache_threshold":0.1,"balance_rel_threshold":1,`+never+`}`, "crowd", 120
		all = append(all, c)
	}
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

func (c *comparison) name() string {
	return strings.Join(strings.Fields(c.program+" "+c.kind+" "+c.theirs+" "+c.variant), " ")
}

// takesWords reports whether the gateway compares tokens and not characters.
func (c *comparison) takesWords() bool { return c.program == "vllm-router" && c.kind == "vllm" }

func (c *comparison) file() string { return strings.ReplaceAll(c.name(), " ", "-") + ".txt" }

// result is what became of a comparison.
type result struct {
	equal, differ, drawn int
	first                string // of what differs
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

// request is one that the gateway has placed and that has no answer yet.
type request struct {
	id     int
	worker int
	free   chan struct{}
	done   chan error
}

// pass is a comparison under way.
type pass struct {
	*comparison
	result
	fleet   *fleet
	policy  router.Policy
	tree    *prompt.Tree
	rand    *rand.Rand
	order   []int // the fleet's workers in the gateway's order
	choice  int   // worker of the request in hand
	tied    bool  // it was drawn
	seen    router.Candidates
	waiting []request
}

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
	if p.policy, err = p.newPolicy(); err != nil {
		return nil, err
	}
	p.lines = append(p.lines, fmt.Sprintf("router policy=%s workers=%d words=%v settings=%s", c.ours, c.workers, c.takesWords(), p.settings))
	p.seen.Running = make([]int32, c.workers)
	for w := range c.workers {
		p.seen.Workers = append(p.seen.Workers, sim.WorkerID(w))
	}
	most := 12
	if c.open > 0 {
		most = c.open
	}
	texts := newTexts(p.rand)
	for i := range n {
		text, session := texts.next(), -1
		if len(p.order) < c.workers && i < c.workers {
			text = string(rune('A'+i)) + " " + text // held, so that each goes to the next worker
		}
		if c.sessions > 0 {
			text, session = fmt.Sprintf("r%d", i), p.rand.IntN(c.sessions)
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
	return &p.result, nil
}

func (p *pass) newPolicy() (router.Policy, error) {
	o := policy.Options{Tree: p.tree, BlockTokens: 1, Among: p.among}
	if p.settings != "" {
		s, err := policy.ParseGatewaySettings(p.ours, []byte(p.settings))
		if err != nil {
			return nil, err
		}
		o.Gateway = &s
	}
	return policy.New(p.ours, o)
}

// among follows the gateway where it has drawn a worker, if it may have.
func (p *pass) among(equal []sim.WorkerID) sim.WorkerID {
	if theirs := sim.WorkerID(p.choice); slices.Contains(equal, theirs) {
		p.tied = true
		return theirs
	}
	return equal[0]
}

// send lets the gateway place a request, and compares the worker.
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
	ours := -1
	p.choice, p.tied = theirs, false
	if !p.draws {
		ours = int(p.policy.Choose(q, &p.seen).Worker)
	}
	p.lines = append(p.lines, fmt.Sprintf("arrive %d text=%s session=%d worker=%d", id, strings.ReplaceAll(text, " ", "_"), session, theirs))
	switch {
	case p.draws && p.mayDraw(theirs), p.tied:
		p.drawn++
	case ours == theirs:
		p.equal++
	default:
		if p.differ++; p.differ == 1 {
			p.first = fmt.Sprintf("request %d to worker %d, here to %d, of loads %v", id, theirs, ours, p.seen.Running)
		}
	}
	p.seen.Running[theirs]++
	p.waiting = append(p.waiting, request{id, theirs, free, done})
	if free == nil {
		return p.release(len(p.waiting) - 1)
	}
	return nil
}

// mayDraw reports whether a worker has no more load than some other.
func (p *pass) mayDraw(worker int) bool {
	for w, load := range p.seen.Running {
		if w != worker && load >= p.seen.Running[worker] {
			return true
		}
	}
	return false
}

// split returns what the gateway compares of a text: vllm-router has a server of vLLM cut it into tokens, of which every
// word is one; else characters are compared.
func (p *pass) split(text string) (ids []uint64) {
	for i := range len(text) {
		if !p.takesWords() || text[i] != ' ' {
			ids = append(ids, uint64(text[i]))
		}
	}
	return ids
}

// release lets the answer of a request go and waits for it.
func (p *pass) release(i int) error {
	x := p.waiting[i]
	p.waiting = slices.Delete(p.waiting, i, i+1)
	if x.free != nil {
		close(x.free)
	}
	if err := <-x.done; err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond) // until the gateway counts it no longer
	p.seen.Running[x.worker]--
	p.lines = append(p.lines, fmt.Sprintf("finish %d", x.id))
	return nil
}

// texts makes prompts that begin alike, of words of one letter.
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
