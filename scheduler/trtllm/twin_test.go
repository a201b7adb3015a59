package trtllm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// asked is a request of a test, with its prompt token by token.
type asked struct {
	ids       []uint64 // hash ids of trace blocks
	input     int
	out, most int
	arrive    int // the first turn of the loop after the arrival
	priority  int32
}

// pair is the core and the literal model with the same requests.
type pair struct {
	core  *Core
	model *model
	turn  int // turn of the core
	todo  []*sim.Request
	at    []int
	now   sim.Time
	pass  scheduler.Pass
	names map[uint64]int // numbers of blocks in events, in order of appearance
}

func newPair(t *testing.T, c Config, traceTokens int, all []asked) *pair {
	t.Helper()
	c.Tree = prompt.NewTree(traceTokens, c.BlockTokens, prompt.Options{})
	c.Clock = timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1}
	if c.Capture == scheduler.CaptureNone {
		c.Capture = scheduler.CaptureEvents
	}
	most := map[sim.RequestID]int{}
	c.Limit = func(r *sim.Request) int { return most[r.ID] }
	core, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{core: core, model: newModel(c), names: map[uint64]int{}}
	for i, a := range all {
		r := &sim.Request{ID: sim.RequestID(i), InputTokens: a.input, OutputTokens: a.out, Priority: a.priority, Prompt: c.Tree.Add(a.ids, a.input)}
		most[r.ID] = a.most
		p.todo, p.at = append(p.todo, r), append(p.at, a.arrive)
		m := &mReq{id: i, P: a.input, orig: a.input, M: a.most, maxNew: a.most, out: a.out, arrive: a.arrive, priority: a.priority}
		for k := range a.input {
			m.toks = append(m.toks, int64(a.ids[k/traceTokens]))
		}
		p.model.waiting = append(p.model.waiting, m)
	}
	core.onFetch = func() { p.turn++; p.submit() }
	return p
}

// submit submits the requests of the current turn to the core.
func (p *pair) submit() {
	for len(p.todo) > 0 && p.at[0] <= p.turn {
		p.core.Submit(p.todo[0])
		p.todo, p.at = p.todo[1:], p.at[1:]
	}
}

// stepCore runs a pass of the core and describes it in the format of the model.
func (p *pair) stepCore() (*mLine, error) {
	c := p.core
	line := &mLine{}
	if _, err := c.Begin(p.now, &p.pass); err != nil {
		return nil, err
	}
	for _, v := range c.next.ctx {
		line.work = append(line.work, fmt.Sprintf("%d[%d:%d]", v.ID, v.before, v.before+v.tokens))
	}
	before := map[*request]int{}
	for _, v := range c.next.gen {
		line.gen = append(line.gen, fmt.Sprint(v.ID))
	}
	for _, all := range [][]visit{c.next.ctx, c.next.gen} {
		for _, v := range all {
			before[v.request] = v.known
		}
	}
	ran := slices.Concat(c.next.ctx, c.next.gen)
	p.pass.End = p.now + 1
	active := slices.Clone(c.active)
	if err := c.End(&p.pass); err != nil {
		return nil, err
	}
	p.now = p.pass.End
	for _, v := range ran {
		if v.known > before[v.request] {
			line.got = append(line.got, fmt.Sprint(v.ID))
		}
	}
	for _, r := range active {
		if r.state == done {
			line.ended = append(line.ended, fmt.Sprint(r.ID))
		}
	}
	line.free = c.pool.free
	for _, a := range p.pass.Admitted {
		if a.FromHost > 0 {
			line.loaded = append(line.loaded, fmt.Sprintf("%d:%d", a.Request, a.FromHost))
		}
	}
	line.events = p.describeEvents()
	return line, nil
}

// describeEvents returns the events of a pass in the format of the model.
func (p *pair) describeEvents() (all []string) {
	for _, e := range p.pass.Events {
		if len(e.Stored) > 0 {
			text := "stored"
			if e.HasParent {
				text = fmt.Sprintf("stored after %d:", numberOf(p.names, e.Parent))
			}
			for _, b := range e.Stored {
				text += fmt.Sprintf(" %d", numberOf(p.names, b.Seq))
			}
			all = append(all, text)
		}
		for _, h := range e.Removed {
			all = append(all, fmt.Sprintf("removed %d", numberOf(p.names, h)))
		}
		for _, h := range e.Moved {
			all = append(all, fmt.Sprintf("%s %d", map[scheduler.Tier]string{scheduler.Device: "device", scheduler.HostPinned: "host"}[e.Tier], numberOf(p.names, h)))
		}
	}
	return all
}

// run runs the core and the model to the end and returns the passes; why is set if the model has no rule for an
// event.
func (p *pair) run() (lines []string, why string, err error) {
	for pass := 1; ; pass++ {
		var want *mLine
		for want == nil && len(p.model.active)+len(p.model.waiting) > 0 && p.model.failed == "" {
			if p.model.turn > 2000 {
				return lines, "", fmt.Errorf("the model does not end")
			}
			want = p.model.step()
		}
		if p.model.failed != "" {
			return lines, p.model.failed, nil
		}
		if want == nil {
			if n := p.core.Load(); n > 0 {
				return lines, "", fmt.Errorf("%d requests are left on the core", n)
			}
			return lines, "", nil
		}
		if p.core.Load() == 0 {
			if len(want.got)+len(want.work) == 0 {
				p.model.events = append(want.events, p.model.events...)
				p.model.now-- // the core skips this pass
				continue      // a pass for a request that had ended
			}
			p.turn = want.turn - 1
		}
		got, err := p.stepCore()
		if err != nil {
			return lines, "", fmt.Errorf("pass %d: %w", pass, err)
		}
		if p.core.Capture != scheduler.CaptureEvents {
			want.events = nil // KV blocks are grouped, so that events are not per block
		}
		want.events = p.model.number(want.events)
		if got.String() != want.String() {
			return lines, "", fmt.Errorf("pass %d: core %v, model %v\nbefore:\n%s", pass, got, want, strings.Join(lines, "\n"))
		}
		lines = append(lines, got.String())
	}
}

// drawConfig draws a configuration.
func drawConfig(g *rand.Rand) Config {
	bs := []int{2, 4}[g.IntN(2)]
	c := Config{
		BlockTokens: bs, Blocks: 6 + g.IntN(15), MaxBatch: 1 + g.IntN(5), MaxTokens: 24 + g.IntN(17), Overlap: g.IntN(2) == 0,
		Policy: []Policy{NoEvict, NoEvict, MaxUtil, MaxUtil, Static}[g.IntN(5)], Chunking: Chunking(g.IntN(3)), Reuse: g.IntN(5) > 0,
		Partial: g.IntN(4) > 0, Copy: g.IntN(4) > 0, Rules: RulesOf(Profiles()[g.IntN(2)]),
	}
	if c.Policy == MaxUtil {
		c.Blocks = 6 + g.IntN(5)
	}
	if c.Reuse && g.IntN(3) == 0 {
		c.Host.Blocks = 1 + g.IntN(6)
	}
	if !c.Reuse && g.IntN(3) == 0 {
		c.Policy = MaxRequests
	}
	c.StoreWhole = g.IntN(8) == 0
	c.ByPriority = g.IntN(4) == 0
	if c.Reuse && g.IntN(3) == 0 {
		c.Retention = drawRetention(g)
	}
	if g.IntN(4) == 0 {
		c.EventBuffer = 1 + g.IntN(4)
	}
	if g.IntN(4) == 0 {
		c.WaitIters, c.WaitRatio = g.IntN(4), float64(g.IntN(5))/4
	}
	if g.IntN(4) == 0 {
		c.MaxLength = 22 + g.IntN(12)
	}
	return c
}

// drawRetention draws retention priorities for some ranges of tokens.
func drawRetention(g *rand.Rand) *Retention {
	x := &Retention{Answer: g.IntN(60), AnswerFor: sim.Time(g.IntN(5))}
	for first := g.IntN(4); first < 20 && g.IntN(4) > 0; {
		end := first + 1 + g.IntN(8)
		x.Ranges = append(x.Ranges, TokenRange{First: first, End: end, Priority: g.IntN(60), For: sim.Time(g.IntN(5))})
		first = end + g.IntN(3)
	}
	return x
}

// drawRequests draws requests with common prefixes.
func drawRequests(g *rand.Rand, c Config, traceTokens int) (all []asked) {
	for i := range 1 + g.IntN(8) {
		a := asked{input: 1 + g.IntN(20), most: 1 + g.IntN(8), arrive: g.IntN(13), priority: int32(g.IntN(3))}
		if c.MaxLength > 0 {
			a.most = min(a.most, c.MaxLength-a.input)
		}
		if countBlocks(a.input+a.most, c.BlockTokens) > c.Blocks {
			continue
		}
		a.out = 1 + g.IntN(a.most)
		n := countBlocks(a.input, traceTokens)
		share, base := g.IntN(n+1), uint64(1+g.IntN(2))
		for k := range n {
			id := base<<16 | uint64(k)
			if k >= share {
				id = uint64(i+10)<<16 | uint64(k)
			}
			a.ids = append(a.ids, id)
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b asked) int { return a.arrive - b.arrive })
	return all
}

// The core gives the same passes as the literal model for random workloads.
func TestCoreEqualsModel(t *testing.T) {
	undefined, pauses, offloads, lost, expired := map[string]int{}, 0, 0, 0, 0
	cases := long.Cases(600, 5000)
	for seed := range uint64(cases) {
		g := rand.New(rand.NewPCG(seed, 5))
		c := drawConfig(g)
		traceTokens := []int{1, 3, 4 * c.BlockTokens, 2 * c.BlockTokens, c.BlockTokens}[g.IntN(5)]
		c.Capture = []scheduler.Capture{scheduler.CaptureEvents, scheduler.CaptureResidency}[g.IntN(2)]
		p := newPair(t, c, traceTokens, drawRequests(g, c, traceTokens))
		_, why, err := p.run()
		if err != nil {
			t.Fatalf("seed %d, %+v, trace blocks of %d: %v", seed, p.core.Config, traceTokens, err)
		}
		if why != "" {
			undefined[why]++
		}
		pauses, offloads = pauses+p.model.paused, offloads+p.model.offloads
		lost, expired = lost+p.model.lost, expired+p.model.expired
	}
	t.Logf("%d cases, of which the model has no end: %v; %d pauses, %d blocks sent to host memory, %d priorities expired, %d events lost", cases, undefined, pauses, offloads, expired, lost)
	if n := undefined["no free block"] + undefined["nothing can be scheduled"] + undefined["prompt exceeds a pass"]; n > cases/20 {
		t.Errorf("the model has no end of %d cases of %d", n, cases)
	}
	if pauses == 0 || offloads == 0 || lost == 0 || expired == 0 {
		t.Error("no request was paused, no block sent to host memory, no priority expired, or no event lost")
	}
}

// Engines with few resources complete all requests, or report why they cannot.
func TestTightEnginesEnd(t *testing.T) {
	for seed := range uint64(long.Cases(400, 2000)) {
		g := rand.New(rand.NewPCG(seed, 6))
		c := drawConfig(g)
		c.Blocks, c.Role, c.Transfer.Latency = 6+g.IntN(4), scheduler.Role(g.IntN(3)), sim.Time(g.IntN(3)*4)
		p := newPair(t, c, 1, drawRequests(g, c, 1))
		for _, r := range p.todo {
			p.core.Submit(r)
		}
		p.todo = nil
		for passes := 0; p.core.Load() > 0; passes++ {
			if passes > 3000 {
				t.Fatalf("seed %d, %+v: no end after %d passes", seed, c, passes)
			}
			err := p.core.Step(p.now, p.now, &p.pass)
			var stall *scheduler.StallError
			if errors.As(err, &stall) && c.CreditCapacity {
				break // credit counts a block too many
			}
			if err != nil {
				t.Fatalf("seed %d, %+v: %v", seed, c, err)
			}
			p.now = p.pass.End
		}
	}
}
