package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// drafts is the state of speculative decoding.
type drafts struct {
	core        *Core
	verified    int64    // number of passes that verified drafts
	left, awake sim.Time // left: time at which no request was left for the planned pass; awake: end of that pass
}

// Speculation configures speculative decoding: a decode pass drafts tokens for each running request and verifies
// them.
type Speculation struct {
	Drafts
	scheduler.Acceptance
}

// Drafts are the parameters of a drafter.
type Drafts struct {
	Algorithm scheduler.Drafter
	Steps     int // number of draft steps, > 0
	TopK      int // number of drafts that each step continues, > 0
	Tokens    int // number of tokens per request that a pass verifies, including the token before the drafts, > 1
}

// Depth returns the maximum number of drafts per request that a pass may accept.
func (s *Drafts) Depth() int {
	if s.Algorithm == scheduler.ByLookup {
		return s.Tokens - 1
	}
	return min(s.Steps, s.Tokens-1)
}

// reserve returns the additional tokens of pool memory per decoding request. The additional tokens are for two
// passes, because one pass may be in flight with unknown acceptance. With several tokens per page, each branch of a
// tree has separate pages.
func (s *Drafts) reserve(page int) int {
	one := s.Steps * s.TopK
	if page > 1 && s.TopK > 1 && s.Algorithm != scheduler.ByLookup {
		one = floorTo(page-1+s.Steps+page-1, page) * s.TopK
	}
	return 2 * max(one, s.Tokens)
}

// draftPasses returns how many times a pass calls the drafter. A drafter with a model also reads the result of a
// prefill.
func (s *Drafts) draftPasses(prefill bool) int {
	switch {
	case s.Algorithm == scheduler.ByLookup && prefill:
		return 0
	case s.Algorithm == scheduler.ByLookup || prefill:
		return 1
	}
	return s.Steps
}

// share is the part of a request in a pass that verifies drafts.
type share struct {
	visit
	accepted int // number of accepted drafts
}

// heldTokens returns the tokens of the pool allocated for r, including shared tokens. For a running request, the
// result is as of base.
func (d *drafts) heldTokens(r *request) int { return d.core.pages.poolTokens(max(r.stored, r.alloc)) }

// nextHold returns the tokens of the pool that r needs for its next decode pass, as far as known.
func (d *drafts) nextHold(r *request) int {
	return max(r.alloc, r.stored, d.core.pages.poolTokens(r.stored+d.core.Speculation.reserve(d.core.PageTokens)))
}

// countMissing returns the additional tokens of the pool that running requests need for the next decode pass.
func (d *drafts) countMissing() int {
	if d.core.Speculation == nil {
		return d.core.batch.countCrossing() * d.core.PageTokens
	}
	missing := 0
	for _, r := range d.core.batch.running {
		missing += d.nextHold(r) - d.heldTokens(r)
	}
	return missing
}

// noteDraftsEnding finds the requests that lack only one token, which is in flight in any case.
func (d *drafts) noteDraftsEnding() {
	for _, r := range d.core.batch.running {
		if !r.ending && r.sampled > r.out && r.out+1 >= r.asked() {
			r.ending = true
			d.core.batch.ending = append(d.core.batch.ending, r)
		}
	}
}

// addDrafts adds each running request to the pass and allocates memory for all tokens that may be accepted. The
// requests have drafts unless the pass computes prompts.
func (d *drafts) addDrafts(f *flight) {
	wanted, taken := 0, 0
	for _, r := range d.core.batch.running {
		next := d.nextHold(r)
		wanted += next - max(r.alloc, r.stored)
		taken += next - d.heldTokens(r)
	}
	if wanted > 0 && d.core.PageTokens > 1 {
		wanted += len(d.core.batch.running) * d.core.PageTokens
	}
	d.core.pages.evictTokens(wanted)
	d.core.pages.free -= taken
	s := d.core.Speculation
	f.decodes, f.length, f.verifies = len(d.core.batch.running), 0, len(f.batch) == 0
	for _, r := range d.core.batch.running {
		r.alloc = d.nextHold(r)
		x := share{visit: visit{r, r.epoch}}
		f.length += r.InputTokens + r.sampled
		if f.verifies {
			x.accepted = s.Accepted(r.DrawKey(), r.sampled, s.Depth())
			f.length += s.Tokens - 1
		}
		r.sampled += x.accepted + 1
		f.shares = append(f.shares, x)
	}
}

// measureDrafts adds the work of drafts to the pass that begins.
func (d *drafts) measureDrafts(s *timing.Step) {
	f := d.core.next
	if f.verifies {
		s.Tokens *= d.core.Speculation.Tokens
	}
	if f.verifies || d.core.Role != scheduler.Decode {
		s.Drafts = d.core.Speculation.draftPasses(!f.verifies)
	}
}

// deliverDrafts ends a pass with speculative decoding.
func (d *drafts) deliverDrafts(f *flight, p *scheduler.Pass) {
	if f.verifies {
		d.verified++
	}
	for i := range f.shares {
		if x := &f.shares[i]; !x.isVoid() && d.giveDrafts(x, f.verifies, p) {
			if !x.ending {
				d.core.batch.ending = append(d.core.batch.ending, x.request)
			}
			d.core.batch.stopRunning(x.request)
			d.core.finishRequest(x.request)
		}
	}
}

// giveDrafts gives the request of x its accepted tokens, up to the end of its answer, and reports whether it gained
// its last token. Tokens after the end of the answer stay in the pool until the request ends. The token before the
// last one also stays, except in passes with prompts.
func (d *drafts) giveDrafts(x *share, verifies bool, p *scheduler.Pass) (last bool) {
	r := x.request
	if verifies {
		p.Verified++
		p.Drafts += d.core.Speculation.Tokens - 1
		p.Accepted += x.accepted
	}
	if more := min(x.accepted, r.asked()-r.out-1); more > 0 {
		p.AddAccepted(r.ID, r.out+1, more)
		r.out += more
	}
	r.out++
	m := p.AddToken(r.ID, r.out, r.asked(), r.lastToken, r.lastToken != p.Start)
	r.lastToken = p.End
	if last = m != nil && m.Last; last {
		m.Handoff = d.core.outbox.transferDelay(r.Request)
	}
	if verifies || !last {
		r.stored += x.accepted + 1
	}
	return last
}

// runEmptyPass runs a planned pass for which no request is left. The accepted drafts of the previous pass, which
// ended at d.left, completed all requests. runEmptyPass returns true if a request has arrived and waits for the end
// of the empty pass.
func (d *drafts) runEmptyPass(now sim.Time, p *scheduler.Pass) (bool, error) {
	if d.left > 0 && now > d.left {
		d.core.measurePass()
		ms, err := d.core.Clock.Step(&d.core.step)
		if err != nil {
			return false, err
		}
		d.core.lastEnd = d.left + sim.Time(ms)
		d.awake, d.left = d.core.lastEnd, 0
		d.verified++
		d.core.next.clear()
	}
	if now >= d.awake {
		return false, nil
	}
	p.Reset(now)
	p.KVAtEnd = true
	p.End = d.awake
	p.Gap = p.End - p.Start
	d.core.describeState(p)
	return true, nil
}
