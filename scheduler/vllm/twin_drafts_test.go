package vllm_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

// slots returns how many tokens of a pass a draft model uses for each request.
func (t *twin) slots() int {
	if s := t.cfg.Speculation; s != nil && s.Method == scheduler.ByDraftModel && t.rules.DraftSlots {
		return 1
	}
	return 0
}

// budget returns the maximum number of tokens of a pass.
func (t *twin) budget() int {
	s := t.cfg.Speculation
	switch {
	case t.cfg.MaxBatchedTokens == vllm.Unlimited:
		return math.MaxInt
	case t.rules.DraftBudget && s != nil && s.Method == scheduler.ByDraftModel && (t.rules.DraftRoom || t.cfg.MaxSeqs != t.cfg.MaxBatchedTokens):
		return t.cfg.MaxBatchedTokens - t.cfg.MaxSeqs
	}
	return t.cfg.MaxBatchedTokens
}

// ahead reports whether a block is identified by its tokens and the next token.
func (t *twin) ahead() bool {
	s := t.cfg.Speculation
	return t.rules.HashAhead && t.cfg.PrefixCaching && s != nil && s.Method == scheduler.ByHead
}

// usesDrafts reports whether r, with the given number of planned tokens, may verify drafts after them.
func (t *twin) usesDrafts(r *twinRequest, tokens int) bool {
	sure := r.given + 1
	if r.target > r.known() {
		sure++
	}
	return r.computed+tokens >= r.target && sure < r.OutputTokens
}

// lookahead returns the number of additional tokens for which r gets blocks, for its drafts.
func (t *twin) lookahead(r *twinRequest) int {
	s := t.cfg.Speculation
	if s == nil || s.Method == scheduler.ByLookup || !t.rules.DraftRoom && !slices.Contains(t.running, r) {
		return 0
	}
	return s.Tokens
}

// withLookahead returns tokens plus lookahead, limited to the longest sequence.
func (t *twin) withLookahead(r *twinRequest, tokens int) int {
	if longest := t.cfg.MaxLength; longest > 0 && t.cfg.Speculation != nil {
		return min(tokens+t.lookahead(r), longest)
	}
	return tokens + t.lookahead(r)
}

// endsInFlight reports whether the pass in flight samples the last token of r in any case.
func (t *twin) endsInFlight(r *twinRequest) bool {
	inFlight := r.target - r.known()
	return inFlight > 0 && r.computed+2-inFlight >= r.end()
}

// pads reports whether a request with want tokens to compute gets padding drafts.
func (t *twin) pads(f *twinFlight, want, cached int) bool {
	if t.cfg.Speculation == nil || !t.rules.PadDrafts || want != 1 {
		return false
	}
	if longest := t.cfg.MaxLength; longest > 0 && t.rules.PadAlone && cached+1+t.cfg.Speculation.Tokens+1 > longest {
		return false
	}
	if f.ran == 0 {
		return t.rules.PadAlone && cached > 0
	}
	return !slices.ContainsFunc(f.shares[:f.ran], func(x *twinShare) bool { return x.drafts != t.cfg.Speculation.Tokens })
}

// sample records the token that x samples, and which of its drafts are accepted. Passes in flight sample earlier
// tokens.
func (t *twin) sample(x *twinShare) {
	r := x.r
	x.samples, x.drafts = true, r.computed-r.target
	answered := r.given
	for _, f := range t.planned {
		for _, y := range f.shares {
			if y.r == r && y.samples {
				answered += 1 + y.accepted
				x.before -= y.drafts - y.accepted
			}
		}
	}
	if x.verifies = x.drafts > 0 && r.drafts > 0; x.verifies {
		for x.accepted < x.drafts && t.isRight(r, answered+x.accepted, x.accepted) {
			x.accepted++
		}
	}
	r.target += x.drafts + 1
	if t.cfg.Speculation != nil {
		r.drafts = t.cfg.Speculation.Tokens
	}
}

// isRight reports whether a draft of r is accepted, after the given numbers of answer tokens and of earlier drafts.
func (t *twin) isRight(r *twinRequest, answered, drafts int) bool {
	s := t.cfg.Speculation
	number := func(place int) float64 {
		x := s.Seed*0x9e3779b97f4a7c15 + uint64(r.ID+1)*0xd6e8feb86659fd93 + uint64(place+1)*0xa0761d6478bd642f
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return float64((x^x>>31)>>11) / (1 << 53)
	}
	rate := s.Low + float64((s.High-s.Low)*number(-1))
	if s.Rates != nil {
		rate = s.Rates[drafts]
	}
	return number(answered) < rate
}

// namesAtEnd reports whether blocks filled by a pass are named when their request ends or is preempted.
func (t *twin) namesAtEnd() bool {
	return t.cfg.Speculation == nil || t.rules.TwoInFlight || t.rules.NameAccepted
}

// deliver gives the request of x its next tokens.
func (t *twin) deliver(x *twinShare, p *scheduler.Pass) {
	r := x.r
	if t.requests[r.ID] != r { // the previous pass completed the request
		return
	}
	rejected, before := x.drafts-x.accepted, r.given
	r.target -= rejected
	if slices.Contains(t.running, r) {
		r.computed -= rejected
	}
	if x.verifies {
		p.Verified++
		p.Drafts += x.drafts
		p.Accepted += x.accepted
	}
	r.given = min(before+1+x.accepted, r.OutputTokens)
	p.Tokens += r.given - before
	switch {
	case before == 0:
	case r.pass == t.passes-1:
		p.Decoding++
	default:
		p.Gaps = append(p.Gaps, p.End-r.at)
		p.Detail.Resumed = append(p.Detail.Resumed, r.ID)
	}
	r.pass, r.at = t.passes, p.End
	if before == 1 {
		p.Second = append(p.Second, r.ID)
	}
	last := r.given == r.OutputTokens
	if before == 0 || last {
		m := scheduler.Mark{Request: r.ID, First: before == 0, Last: last, Tokens: r.given}
		if last && t.cfg.Role == scheduler.Prefill {
			m.Handoff = t.cfg.Transfer.Delay(r.InputTokens)
		}
		p.Marks = append(p.Marks, m)
	}
	if last {
		if t.rules.NameAtEnd && t.namesAtEnd() && slices.Contains(t.running, r) {
			t.name(r, min(r.computed, r.known()-1))
		}
		t.release(r)
		other := func(x *twinRequest) bool { return x == r }
		t.running = slices.DeleteFunc(t.running, other)
		t.waiting = slices.DeleteFunc(t.waiting, other)
		delete(t.requests, r.ID)
	}
}

// computesMore reports whether the planned pass has any work.
func (t *twin) computesMore() bool { return len(t.planned) > 0 && len(t.planned[0].shares) > 0 }

// runEmptyPass runs a planned pass for which no request is left. Requests that arrive during the pass wait.
func (t *twin) runEmptyPass(now sim.Time) {
	if t.vacant > 0 && now > t.vacant {
		ms, _ := t.cfg.Clock.Step(&t.planned[0].step)
		t.awake, t.planned = t.vacant+sim.Time(ms), nil
	}
	t.vacant = 0
}

// drawDrafts draws an engine with speculative decoding by the rules of a release, with some rules drawn.
func drawDrafts(seed uint64) drawn {
	rng := rand.New(rand.NewPCG(seed, 17))
	all := releases.Profiles()[1:]
	rules, _ := releases.ParseProfile(all[rng.IntN(len(all))])
	v := reflect.ValueOf(&rules).Elem()
	for _, name := range []string{
		"ReserveWhole", "OneQueue", "NullBlock", "PastSelf", "TwoInFlight", "WholeAlone", "EmptyPassIdle", "NameAtEnd",
		"DraftRoom", "NameAccepted", "PadDrafts", "PadAlone", "DraftSlots", "DraftBudget", "SkipDrafts", "HashAhead",
	} {
		if rng.IntN(6) == 0 {
			v.FieldByName(name).SetBool(!v.FieldByName(name).Bool())
		}
	}
	rules.LongPrefillTokens, rules.Watermark = rng.IntN(4)/3, float64(rng.IntN(5)/4)/10
	d := draw(seed, rules)
	s := &vllm.Speculation{Method: scheduler.Drafter(rng.IntN(3)), Tokens: 1 + rng.IntN(5), Acceptance: scheduler.Acceptance{Seed: rng.Uint64N(9)}}
	s.Low = float64(rng.IntN(4)) / 4
	s.High = s.Low + (1-s.Low)*float64(rng.IntN(3))/2
	if rng.IntN(3) == 0 {
		s.Rates = []float64{0.9, 0.8, 0.5, 0.7, 0}
	}
	d.cfg.Speculation, d.cfg.Clock.DraftMs, d.cfg.Clock.DraftShare = s, float64(rng.IntN(2)), float64(rng.IntN(3))/10
	if d.cfg.MaxBatchedTokens != vllm.Unlimited { // a smaller budget would leave no room for any token
		d.cfg.MaxBatchedTokens = max(d.cfg.MaxBatchedTokens, s.Tokens+1, d.cfg.MaxSeqs+1+rng.IntN(9))
	}
	d.cfg.Blocks += rng.IntN(4) * (1 + s.Tokens/d.cfg.BlockTokens)
	if rng.IntN(2) == 0 {
		for i := range d.arrivals {
			d.cfg.MaxLength = max(d.cfg.MaxLength, d.arrivals[i].Request.InputTokens+d.arrivals[i].Request.OutputTokens)
		}
		d.cfg.MaxLength += rng.IntN(2) * rng.IntN(2*s.Tokens)
	}
	return d
}

// An engine with speculative decoding equals its twin pass by pass.
func TestDraftsDifferential(t *testing.T) {
	cases := long.Cases(uint64(1500), 8000)
	var seen fate
	for seed := range cases {
		d := drawDrafts(seed)
		if err := d.compare(build(t, d.cfg), newTwin(d.cfg), &seen); err != nil {
			t.Fatalf("seed %d: %+v, %+v\n%v", seed, d.cfg, *d.cfg.Speculation, err)
		}
	}
	if n := int(cases); seen.preempted < n/2 || seen.reused < n || seen.cut < n/4 || seen.accepted < n || seen.rejected < n || seen.stalled > n/50 {
		t.Errorf("%+v in %d cases, want more of everything, and fewer stalls", seen, n)
	}
}
