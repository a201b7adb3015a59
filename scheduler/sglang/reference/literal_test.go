package reference

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// literal is the state of a literal implementation of the rules, with token slices instead of the counters of the
// core. The run time of literal depends on the number of tokens.
type literal struct {
	schedulertest.Twin
	sglang.Config
	values  func(id sim.RequestID) []uint64
	waiting []*literalRequest
	running []*literalRequest
	ratio   float64
	free    int
	tree    *literalTree
	passes  int
	p       *scheduler.Pass
}

type literalRequest struct {
	*sim.Request
	prompt, out        []uint64
	maxOut             int
	slots              []int32
	mat, cached, alloc int
	node               *literalNode
	hit                int
	tokenPass          int // the pass of the last token; 0: no token yet
	tokenAt            sim.Time
	lookedUp           int
	postponed          bool
}

func newLiteral(c sglang.Config, values func(sim.RequestID) []uint64) literal {
	l := literal{Config: c, values: values, free: c.Pages * c.PageTokens, tree: newLiteralTree(c.PageTokens)}
	return l
}

func (l *literal) Submit(r *sim.Request) {
	q := &literalRequest{Request: r, prompt: l.values(r.ID), maxOut: r.OutputTokens, hit: -1}
	if l.Role == scheduler.Prefill {
		q.maxOut = 1
	}
	l.waiting = append(l.waiting, q)
}

func (l *literal) Cut(*scheduler.Pass, int) {}

func (l *literal) Load() int {
	return len(l.waiting) + len(l.running)
}

func (l *literal) capacity() int    { return l.Pages * l.PageTokens }
func (l *literal) floorP(n int) int { return n / l.PageTokens * l.PageTokens }
func (l *literal) ceilP(n int) int  { return l.floorP(n + l.PageTokens - 1) }
func (r *literalRequest) seq() []uint64 {
	return slices.Concat(r.prompt, r.out)
}
func (r *literalRequest) length() int { return len(r.prompt) + len(r.out) }
func (r *literalRequest) left() int   { return max(0, r.maxOut-len(r.out)) }

func (l *literal) reserve() float64 {
	sum := 0.0
	for _, r := range l.running {
		sum = sum + float64(float64(min(r.left(), l.ClipNewTokens))*l.ratio)
	}
	return sum
}

// decodeMs returns the decode time for all running requests.
func (l *literal) decodeMs() float64 {
	n, ctx := len(l.running), 0
	if n == 0 {
		return 0
	}
	for _, r := range l.running {
		ctx += r.length()
	}
	ms, err := l.Clock.Decode(n, min(ctx, l.capacity()), ctx/n, l.capacity())
	if err != nil {
		panic(err)
	}
	return ms
}

func (l *literal) prefillMs(n, isl, prefix int) float64 {
	if n == 0 || l.Role == scheduler.Decode {
		return 0
	}
	ms, err := l.Clock.Prefill(n, isl/n, prefix/n)
	if err != nil {
		panic(err)
	}
	return ms
}

// token appends a generated token to r and records its mark.
func (l *literal) token(r *literalRequest) bool {
	r.out = append(r.out, (&radix.Sequence{Owner: r.ID}).Token(len(r.out)))
	r.mat++
	p := l.p
	p.Tokens++
	if r.tokenPass > 0 {
		if r.tokenPass == l.passes-1 {
			p.Decoding++
		} else {
			p.Gaps = append(p.Gaps, p.End-r.tokenAt)
		}
	}
	r.tokenPass, r.tokenAt = l.passes, p.End
	done := len(r.out) >= r.maxOut
	if len(r.out) == 2 {
		p.Second = append(p.Second, r.ID)
	}
	if len(r.out) == 1 || done {
		m := scheduler.Mark{Request: r.ID, First: len(r.out) == 1, Last: done, Tokens: len(r.out)}
		if done && l.Role == scheduler.Prefill {
			m.Handoff = l.Transfer.Delay(len(r.prompt))
		}
		p.Marks = append(p.Marks, m)
	}
	return done
}

func (l *literal) stalled() error {
	if len(l.p.Admitted) == 0 && l.p.Tokens == 0 && l.p.Preempted == 0 {
		return &scheduler.StallError{}
	}
	return nil
}

// lpm sorts the queue by the longest cached prefix. limit returns the maximum length of a lookup, and scratchPage is
// the page size for common prefixes of two sequences. sortPostponed determines the order of postponed requests.
func (l *literal) lpm(limit func(*literalRequest) int, scratchPage int, sortPostponed bool) {
	if l.Policy != sglang.LPM || len(l.waiting) > 128 {
		return
	}
	scratch := newLiteralTree(scratchPage)
	for _, r := range l.waiting {
		r.lookedUp, r.postponed = l.tree.lookup(r.seq()[:limit(r)]), false
		if r.lookedUp <= 32 {
			if scratch.lookup(r.seq()) >= 32 {
				r.postponed = true
			} else {
				scratch.insert(r.seq(), nil)
			}
		}
	}
	sort.SliceStable(l.waiting, func(i, j int) bool {
		a, b := l.waiting[i], l.waiting[j]
		if a.postponed != b.postponed {
			return !a.postponed
		}
		if a.postponed && !sortPostponed {
			return false
		}
		return a.lookedUp > b.lookedUp
	})
}

// account is the state that is compared after every pass.
type account struct {
	free, evictable, protected int
	ratio                      float64
}

// duel runs a trace on the core and on its literal twin and compares every pass.
func duel(c sglang.Config, traceBlock int, trace []line, twin func(sglang.Config, func(sim.RequestID) []uint64) scheduler.Core, sums func(scheduler.Core) account) (seen, error) {
	var s seen
	x := newRun(&c, traceBlock, trace)
	core, err := New(c)
	if err != nil {
		return s, err
	}
	model := twin(c, func(id sim.RequestID) []uint64 { return x.tokensOf(int(id)) })
	next := 0
	var a, b scheduler.Pass
	for now := sim.Time(0); next < len(trace) || core.Load() > 0; {
		if core.Load() == 0 {
			now = max(now, x.arrivals[next])
		}
		for next < len(trace) && x.arrivals[next] <= now {
			core.Submit(x.requests[next])
			model.Submit(x.requests[next])
			next++
		}
		errA, errB := core.Step(now, now, &a), model.Step(now, now, &b)
		if (errA == nil) != (errB == nil) {
			return s, fmt.Errorf("at %v: %v, twin %v", now, errA, errB)
		}
		slices.Sort(a.Gaps)
		slices.Sort(b.Gaps)
		slices.Sort(a.Second)
		slices.Sort(b.Second)
		if x, y := passText(&a), passText(&b); x != y {
			return s, fmt.Errorf("pass %d is\n%stwin\n%s", s.passes, x, y)
		}
		got, want := account{core.free, core.evictableTokens(), core.protected(), core.ratio.now}, sums(model)
		if got != want {
			return s, fmt.Errorf("after pass %d (%v) the account is %+v, twin %+v", s.passes, now, got, want)
		}
		if core.Load() != model.Load() {
			return s, fmt.Errorf("load %d, twin %d", core.Load(), model.Load())
		}
		s.add(&a)
		if errA != nil {
			s.stalls++
			return s, nil
		}
		now = a.End
	}
	return s, nil
}

// seen counts events, so that a test fails if they do not occur.
type seen struct{ passes, stalls, retracted, reused, gaps, events, removed int }

func (s *seen) add(p *scheduler.Pass) {
	s.passes++
	s.retracted += p.Preempted
	s.gaps += len(p.Gaps)
	s.events += len(p.Events)
	for _, e := range p.Events {
		s.removed += len(e.Removed)
	}
	for _, a := range p.Admitted {
		s.reused += a.Reused
	}
}

func (s *seen) sum(o seen) {
	s.passes += o.passes
	s.stalls += o.stalls
	s.retracted += o.retracted
	s.reused += o.reused
	s.gaps += o.gaps
	s.events += o.events
	s.removed += o.removed
}

func passText(p *scheduler.Pass) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v to %v, gap %v: %d tokens, %d decoding, gaps %v, second %v, retracted %d, computed %d\nadmitted %v\nmarks %+v\n",
		p.Start, p.End, p.Gap, p.Tokens, p.Decoding, p.Gaps, p.Second, p.Preempted, p.PrefillTokens, p.Admitted, p.Marks)
	for _, e := range p.Events {
		b.WriteString(describe(e))
	}
	return b.String()
}

// tight returns a random engine and a random trace with too few resources.
func tight(rng *rand.Rand) (sglang.Config, int, []line) {
	page := 1 + rng.IntN(16)
	if rng.IntN(3) == 0 {
		page = 1 + rng.IntN(2)
	}
	c := config(page, max(1, (6+rng.IntN(640))/page))
	c.ChunkTokens = page * (1 + rng.IntN(64))
	c.MaxPrefillTokens = []int{16384, 16384, page * (1 + rng.IntN(64))}[rng.IntN(3)]
	c.ClipNewTokens = []int{0, 1, 3, 20, 4096}[rng.IntN(5)]
	c.Conservativeness = []float64{0, 0.3, 1, 1, 2}[rng.IntN(5)]
	c.Policy = sglang.Policy(rng.IntN(2))
	c.Role = []scheduler.Role{scheduler.Aggregated, scheduler.Aggregated, scheduler.Decode, scheduler.Prefill}[rng.IntN(4)]
	c.Transfer = scheduler.Transfer{GBPerSecond: 64, BytesPerToken: 1000}
	if rng.IntN(2) == 0 {
		c.Capture = scheduler.CaptureEvents
	}
	traceBlock := []int{page, 2 * page, 4 * page, 1 + rng.IntN(64)}[rng.IntN(4)]
	longest := max(1, c.Pages*page*(1+rng.IntN(10))/10)
	trace := make([]line, 1+rng.IntN(40))
	if rng.IntN(25) == 0 {
		trace = make([]line, lpmQueue-20+rng.IntN(60)) // about as many requests as lpm can sort
		longest = max(1, longest/8)
	}
	at := sim.Time(0)
	for i := range trace {
		if rng.IntN(3) > 0 {
			at += sim.Time(rng.IntN(60))
		}
		in := 1 + rng.IntN(longest)
		out := rng.IntN(max(1, min(40, c.Pages*page-in)))
		ids := make([]uint64, (in+traceBlock-1)/traceBlock)
		for k := range ids {
			ids[k] = uint64(10*k + rng.IntN(2))
		}
		if rng.IntN(8) == 0 {
			ids = nil
		}
		trace[i] = r(at, in, out, ids...)
	}
	return c, traceBlock, trace
}

func duels(t *testing.T, n int, twin func(sglang.Config, func(sim.RequestID) []uint64) scheduler.Core, sums func(scheduler.Core) account) seen {
	t.Helper()
	var total seen
	for seed := range n {
		c, traceBlock, trace := tight(rand.New(rand.NewPCG(uint64(seed), 7)))
		s, err := duel(c, traceBlock, trace, twin, sums)
		if err != nil {
			c.Tree, c.Tokens = nil, nil
			t.Fatalf("seed %d: %v\n%+v\ntrace blocks of %d: %v", seed, err, c, traceBlock, trace)
		}
		total.sum(s)
	}
	return total
}
