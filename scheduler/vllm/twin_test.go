package vllm_test

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// twin is the literal twin of the core: it implements vLLM's rules as documented (docs/rules/vllm.md), reads every
// running request in every plan, and has a list as pool. The code of the twin is meant to be obviously right, not
// fast.
type twin struct {
	schedulertest.Twin
	cfg      vllm.Config
	rules    vllm.Rules
	requests map[sim.RequestID]*twinRequest
	waiting  []*twinRequest
	running  []*twinRequest
	pool     twinPool
	planned  []*twinFlight // the next pass, and possibly the pass after it
	latest   *twinFlight
	passes   int
	number   int
	worked   int  // number of plans with any work
	prompts  int  // number of the latest plan with prompts
	left     bool // the latest pass that read the queue left a request in it
	awake    sim.Time
	vacant   sim.Time       // time at which no request was left for the planned pass; 0: not the case
	limit    int            // maximum tokens per request in the planned pass, or 0
	groups   []vllm.Windows // groups of layers: with windows if Tokens is not 0, otherwise without
}

type twinRequest struct {
	*sim.Request
	number    int // number of the submission
	target    int // tokens known or in flight
	computed  int // tokens computed after the planned passes
	given     int // number of delivered tokens
	preempted bool
	pass      int // pass of the latest token
	at        sim.Time
	held      [][]*twinBlock // held blocks by group of layers; nil if the group has released the block
	named     int            // number of blocks of a group that could be named
	flight    *twinFlight    // the latest planned pass with a share for the request
	midway    bool           // tokens remain to be computed after the latest share
	drafts    int            // drafts proposed for the request's next pass
}

// twinFlight is a planned pass.
type twinFlight struct {
	drafted        bool // a request can use the drafts made after the pass
	shares         []*twinShare
	budget         int
	shut, prefills bool // shut: no prompts are computed; prefills: prompts are computed
	ran            int  // number of shares of requests that ran before
	lost           int
	gone           []sim.RequestID
	step           timing.Step
}

type twinShare struct {
	r                      *twinRequest
	before, tokens, target int
	samples                bool
	drafts, accepted       int  // drafts among tokens, and how many of them are accepted
	verifies               bool // a drafter proposed the drafts
}

func newTwin(c vllm.Config) *twin {
	t := &twin{cfg: c, rules: c.Rules, requests: make(map[sim.RequestID]*twinRequest)}
	n := c.Blocks
	if c.Rules.NullBlock {
		n--
	}
	t.pool.usable = n
	for range n {
		t.pool.free = append(t.pool.free, &twinBlock{})
	}
	t.pool.found = make(map[twinName][]*twinBlock)
	t.pool.unnamedFirst = !c.Rules.OneQueue
	t.groups = make([]vllm.Windows, max(1, c.Windows.Groups+c.Windows.Full))
	for g := range c.Windows.Groups {
		if c.Windows.FullFirst {
			g += c.Windows.Full
		}
		t.groups[g] = c.Windows
	}
	return t
}

func (t *twin) Load() int         { return len(t.requests) }
func (r *twinRequest) end() int   { return r.InputTokens + r.OutputTokens }
func (r *twinRequest) known() int { return r.InputTokens + r.given }

func (t *twin) Submit(q *sim.Request) {
	t.number++
	r := &twinRequest{Request: q, number: t.number, target: q.InputTokens, pass: -1}
	t.requests[q.ID] = r
	t.waiting = append(t.waiting, r)
	t.sortWaiting()
}

// Step plans a pass if none is planned, with two in flight also the pass after it, and ends the first.
func (t *twin) Step(now, _ sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	t.runEmptyPass(now)
	if now < t.awake {
		t.nap(p)
		return nil
	}
	if len(t.planned) == 0 || len(t.planned[0].shares) == 0 {
		t.planned = []*twinFlight{t.plan(p)}
	}
	if len(t.planned[0].shares) == 0 {
		if p.Preempted == 0 {
			return &scheduler.StallError{}
		}
		t.awake = now + sim.Time(t.rules.EmptyPassMs)
		t.nap(p)
		return nil
	}
	if t.rules.TwoInFlight {
		t.planned = append(t.planned, t.plan(p))
	}
	f := t.planned[0]
	t.planned, t.latest = t.planned[1:], f
	if err := t.last(f, p); err != nil {
		return err
	}
	p.Gap = p.End - p.Start
	for _, x := range f.shares {
		if x.samples {
			t.deliver(x, p)
		}
		p.PrefillTokens += max(0, min(x.before+x.tokens, x.r.InputTokens)-x.before)
	}
	t.passes++
	if t.rules.TwoInFlight && len(t.planned[0].shares) == 0 && (t.Load() > 0 || t.rules.EmptyPassIdle) {
		t.awake = p.End + sim.Time(t.rules.EmptyPassMs)
	}
	if t.vacant = 0; t.Load() == 0 && t.computesMore() {
		t.vacant = p.End
	}
	t.describe(f, p.Detail)
	return nil
}

// nap runs an empty pass until the engine is awake again.
func (t *twin) nap(p *scheduler.Pass) {
	p.End, p.Detail.PrefillEnd, p.Gap = t.awake, p.Start, t.awake-p.Start
	t.latest = &twinFlight{}
	t.passes++
	t.describe(t.latest, p.Detail)
}

// last sets the end of the pass. With mixed steps the pass has one duration, without them two. The prompt part is the
// duration of the pass, minus the duration that only its decodes would take.
func (t *twin) last(f *twinFlight, p *scheduler.Pass) error {
	s := f.step
	if !t.rules.MixedStep {
		prefill, decode, err := t.cfg.Clock.Apart(&s)
		p.Detail.PrefillEnd = p.Start + sim.Time(prefill)
		p.End = p.Detail.PrefillEnd + sim.Time(decode)
		return err
	}
	ms, err := t.cfg.Clock.Step(&s)
	p.End, p.Detail.PrefillEnd = p.Start+sim.Time(ms), p.Start
	if s.Pairs > 0 {
		without := 0.0
		if s.Decodes > 0 {
			without, _ = t.cfg.Clock.Step(&timing.Step{
				Tokens: s.Decodes, Requests: s.Decodes, Decodes: s.Decodes, Context: s.Context,
				DecodeLength: s.DecodeLength, Active: s.Active, Capacity: s.Capacity,
			})
		}
		p.Detail.PrefillEnd = max(p.Start, p.End-sim.Time(without))
	}
	return err
}

// describe records the requests that computed prompt tokens, or answer tokens again, and the state after the pass.
func (t *twin) describe(f *twinFlight, d *scheduler.Detail) {
	if d == nil {
		return
	}
	d.Running, d.Waiting = len(t.running), len(t.requests)-len(t.running)
	d.Blocks, d.Held, d.Cached = t.cfg.Blocks, t.pool.usable-len(t.pool.free), t.pool.cached()
	for _, x := range f.shares {
		w := scheduler.Work{Request: x.r.ID, Prefix: min(x.before, x.r.InputTokens)}
		w.Prompt = min(x.before+x.tokens, x.r.InputTokens) - w.Prefix
		w.Recomputed = x.tokens - w.Prompt
		if x.samples && x.target > x.r.InputTokens {
			w.Recomputed -= 1 + x.drafts // the latest token was never computed before
		}
		if w.Recomputed = max(0, w.Recomputed); x.before < x.r.InputTokens || x.tokens-x.drafts > 1 {
			d.Work = append(d.Work, w)
		}
	}
}

// Snapshot returns the work of the latest pass and the queued requests.
func (t *twin) Snapshot(*scheduler.Pass) (s scheduler.Snapshot) {
	for _, x := range t.latest.shares {
		if input := x.r.InputTokens; x.before < input {
			s.Prefill.Add(x.tokens, float64(input))
			s.PrefillCached += x.before
		} else {
			s.Decode.Add(x.target, float64(x.target))
		}
	}
	for _, r := range t.waiting {
		if r.preempted {
			s.QueuedDecode.Add(r.target, float64(r.target))
		} else {
			s.QueuedPrefill.Add(r.InputTokens, float64(r.InputTokens))
		}
	}
	return s
}

// Progress yields the requests that have gained a token.
func (t *twin) Progress(yield func(id sim.RequestID, tokens int, last sim.Time)) {
	for _, r := range t.requests {
		if r.given > 0 {
			yield(r.ID, r.given, r.at)
		}
	}
}

// plan plans a pass.
func (t *twin) plan(p *scheduler.Pass) *twinFlight {
	f := &twinFlight{budget: t.budget()}
	t.limit = t.rules.LongPrefillTokens
	if t.rules.WholeAlone && len(t.running)+len(t.waiting) <= 1 {
		t.limit = 0
	}
	f.shut = t.isShut()
	t.planRunning(f)
	f.ran = len(f.shares)
	for len(t.waiting) > 0 && f.lost == 0 && (t.cfg.MaxSeqs == vllm.Unlimited || len(t.running) < t.cfg.MaxSeqs) {
		if f.budget == 0 && t.rules.BudgetGate || !t.admit(f, p) {
			break
		}
	}
	t.closePlan(f)
	p.Preempted += f.lost
	p.Detail.Lost = append(p.Detail.Lost, f.gone...)
	f.step = t.measure(f)
	return f
}

// cut returns the number of tokens, limited to what a pass may compute of a request.
func (t *twin) cut(tokens, budget int) int {
	if t.limit > 0 {
		tokens = min(tokens, t.limit)
	}
	return min(tokens, budget)
}

// admit admits the head of the queue and reports whether it did.
func (t *twin) admit(f *twinFlight, p *scheduler.Pass) bool {
	r := t.waiting[0]
	most := r.InputTokens
	hits := t.hits(r, (most+t.cfg.BlockTokens-1)/t.cfg.BlockTokens)
	if t.rules.RecomputeLast {
		most = r.target - 1
		hits = t.hits(r, most/t.cfg.BlockTokens)
	}
	if s := t.cfg.Speculation; s != nil && s.Method == scheduler.ByHead && !t.rules.HashAhead && len(hits[0]) > 0 { // the drafter needs the hidden states of the last block
		hits[0] = hits[0][:len(hits[0])-1]
	}
	cached := min(len(hits[0])*t.cfg.BlockTokens, most)
	prompt := r.target-cached > 1
	if f.shut && prompt {
		return false
	}
	want, left := r.target-cached, f.budget-t.slots()
	if t.pads(f, want, cached) {
		if want += t.cfg.Speculation.Tokens; want > left {
			return false
		}
	}
	want = t.cut(want, math.MaxInt)
	if !t.cfg.ChunkedPrefill && want > left {
		return false
	}
	if want = min(want, left); want == 0 && cached < r.target {
		return false
	}
	if t.rules.AdmitIdle && !t.fits(r, hits, cached+want) {
		return false
	}
	for _, group := range hits {
		for _, b := range group {
			t.pool.hold(b)
		}
	}
	r.held, r.named = hits, len(hits[0])
	for !t.cover(r, cached+want) {
		if len(t.running) == 0 {
			t.release(r)
			return false
		}
		t.preempt(f)
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(x *twinRequest) bool { return x == r })
	t.running = append(t.running, r)
	again := r.preempted
	r.computed, r.preempted, r.midway = cached, false, prompt
	p.Admitted = append(p.Admitted, scheduler.Admission{Request: r.ID, Again: again, Reused: min(cached, r.InputTokens)})
	t.schedule(f, r, want)
	return want > 0 || f.budget > 0
}

// fits reports whether the chunk, and all known tokens of r, would fit.
func (t *twin) fits(r *twinRequest, hits [][]*twinBlock, tokens int) bool {
	chunk, whole := 0, 0
	for g, group := range hits {
		chunk += max(0, t.need(r, t.withLookahead(r, tokens))-len(group))
		if t.rules.ReserveWhole {
			whole += max(0, t.admitted(g, (r.target+t.cfg.BlockTokens-1)/t.cfg.BlockTokens)-len(group))
		}
		for _, b := range group {
			if b != nil && b.holders == 0 {
				chunk++
				whole++
			}
		}
	}
	left := len(t.pool.free)
	if len(t.running) > 0 {
		left -= int(t.rules.Watermark * float64(t.cfg.Blocks))
	}
	return chunk <= left && (!t.rules.ReserveWhole || whole <= left)
}

// need returns the number of blocks for the given number of tokens of r.
func (t *twin) need(r *twinRequest, tokens int) int {
	if !t.rules.WholeAllocation && tokens == r.target {
		tokens++ // the sampled token
	}
	return (tokens + t.cfg.BlockTokens - 1) / t.cfg.BlockTokens
}

// cover allocates the blocks for the given number of tokens of r and reports whether there were enough.
func (t *twin) cover(r *twinRequest, tokens int) bool {
	for len(r.held) < len(t.groups) {
		r.held = append(r.held, nil)
	}
	lack := (t.need(r, t.withLookahead(r, tokens)) - len(r.held[0])) * len(t.groups)
	if lack <= 0 {
		if tokens%t.cfg.BlockTokens == 0 || t.cfg.Speculation != nil {
			t.name(r, tokens)
		}
		return true
	}
	if lack > len(t.pool.free) && t.rules.WholeAllocation {
		return false
	}
	n := min(lack, len(t.pool.free)) / len(t.groups)
	for g := range t.groups {
		for range n {
			r.held[g] = append(r.held[g], t.pool.take())
		}
	}
	t.name(r, tokens)
	return n*len(t.groups) == lack
}

// name names the full blocks of the first tokens of r, with known values, so that they can be found.
func (t *twin) name(r *twinRequest, tokens int) {
	if !t.cfg.PrefixCaching {
		return
	}
	known := r.known()
	if t.ahead() {
		known--
	}
	if full := min(min(tokens, known)/t.cfg.BlockTokens, len(r.held[0])); full > r.named {
		for g, group := range r.held {
			for i := r.named; i < full; i++ {
				t.pool.name(group[i], t.nameOf(r, i, g))
			}
		}
		r.named = full
	}
}

// schedule adds tokens of r to the pass.
func (t *twin) schedule(f *twinFlight, r *twinRequest, tokens int) {
	x := &twinShare{r: r, before: r.computed, tokens: tokens, target: r.target}
	f.drafted = f.drafted || t.usesDrafts(r, tokens)
	f.prefills = f.prefills || r.midway
	r.computed += tokens
	r.flight = f
	f.budget -= tokens + t.slots()
	if r.computed >= r.target {
		t.sample(x)
	}
	r.midway = !x.samples
	f.shares = append(f.shares, x)
}

// measure returns the work of a pass.
func (t *twin) measure(f *twinFlight) (s timing.Step) {
	held := t.pool.usable - len(t.pool.free)
	for _, x := range f.shares {
		if !t.rules.WholeAllocation && x.samples && x.target%t.cfg.BlockTokens == 0 {
			held-- // exclude the block of the sampled token
		}
		input := x.r.InputTokens
		alone := x.tokens == 0 || x.tokens-x.drafts == 1 && (x.before >= input || t.rules.MixedStep && t.cfg.Role != scheduler.Decode && t.cfg.Clock.TimesWhole()) // one token only
		computes := !alone && t.cfg.Role != scheduler.Decode
		if computes {
			s.Requests++
			s.Tokens += x.tokens
			s.Pairs += float64(x.tokens) * (float64(x.before) + float64(x.tokens)/2)
			if x.before < input {
				s.Prompts++
				s.PromptBefore += x.before
				s.PromptReached += min(x.before+x.tokens, input)
			}
		}
		if alone || x.samples && (!computes || !t.rules.FirstTokenFree) {
			reached := x.target
			if !computes && x.tokens > 0 { // up to the last draft; possibly one token of an answer computed again
				reached = x.before + x.tokens
			}
			s.Decodes++
			s.DecodeLength += reached
			s.Context += int64(reached)
			if !computes {
				s.Requests++
				s.Tokens += 1 + x.drafts
			}
		}
	}
	if c := t.cfg.Speculation; c != nil && s.Requests > 0 && (f.drafted || !t.rules.SkipDrafts || c.Method == scheduler.ByLookup) {
		s.Drafts = c.Tokens
	}
	if t.cfg.Role == scheduler.Prefill && !t.rules.MixedStep {
		s.Decodes, s.DecodeLength = 0, 0
	}
	s.Active, s.Capacity = held*t.cfg.BlockTokens, t.cfg.Blocks*t.cfg.BlockTokens
	return s
}
