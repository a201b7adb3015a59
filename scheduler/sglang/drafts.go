package sglang

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// drafts is speculative decoding.
type drafts struct {
	core        *Core
	verified    int64    // passes that have verified drafts
	left, awake sim.Time // when no request was left for the planned pass, and when that ended
}

// Speculation is how an engine decodes speculatively: a decode pass drafts tokens for each
// running request and verifies them.
type Speculation struct {
	Drafts
	scheduler.Acceptance
}

// Drafts are what a drafter proposes.
type Drafts struct {
	Algorithm scheduler.Drafter
	Steps     int // in a row, > 0
	TopK      int // that each step continues with, > 0
	Tokens    int // of a request that a pass verifies, the one before the drafts among them, > 1
}

// Depth returns the number of drafts that a pass may accept of a request.
func (s *Drafts) Depth() int {
	if s.Algorithm == scheduler.ByLookup {
		return s.Tokens - 1
	}
	return min(s.Steps, s.Tokens-1)
}

// reserve returns the further tokens that a request holds while it decodes: those
// of two passes, as one may be in flight with unknown acceptance. Where
// pages have several tokens each branch of a tree has separate pages.
func (s *Drafts) reserve(page int) int {
	one := s.Steps * s.TopK
	if page > 1 && s.TopK > 1 && s.Algorithm != scheduler.ByLookup {
		one = floorTo(page-1+s.Steps+page-1, page) * s.TopK
	}
	return 2 * max(one, s.Tokens)
}

// draftPasses returns how many times a pass calls the drafter, which reads what a prefill
// computes, too.
func (s *Drafts) draftPasses(prefill bool) int {
	switch {
	case s.Algorithm == scheduler.ByLookup && prefill:
		return 0
	case s.Algorithm == scheduler.ByLookup || prefill:
		return 1
	}
	return s.Steps
}

// share is a request's part in a pass that verifies drafts.
type share struct {
	visit
	accepted int // drafts
}

// heldTokens returns the tokens of the pool that r has places for, shared ones among them: at
// base, if it runs.
func (d *drafts) heldTokens(r *request) int { return d.core.pages.poolTokens(max(r.stored, r.alloc)) }

// nextHold returns the tokens that r gets places for when it decodes next, as far as is known.
func (d *drafts) nextHold(r *request) int {
	return max(r.alloc, r.stored, d.core.pages.poolTokens(r.stored+d.core.Speculation.reserve(d.core.PageTokens)))
}

// countMissing returns the tokens of the pool that running requests need to decode.
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

// noteDraftsEnding finds the requests that lack one token, which have it in flight in any case.
func (d *drafts) noteDraftsEnding() {
	for _, r := range d.core.batch.running {
		if !r.ending && r.sampled > r.out && r.out+1 >= r.asked() {
			r.ending = true
			d.core.batch.ending = append(d.core.batch.ending, r)
		}
	}
}

// addDrafts adds each running request to the pass, with drafts unless it computes prompts,
// and finds places for all that may be accepted.
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

// measureDrafts enters what drafts add to the pass that begins.
func (d *drafts) measureDrafts(s *timing.Step) {
	f := d.core.next
	if f.verifies {
		s.Tokens *= d.core.Speculation.Tokens
	}
	if f.verifies || d.core.Role != scheduler.Decode {
		s.Drafts = d.core.Speculation.draftPasses(!f.verifies)
	}
}

// deliverDrafts ends a pass that decodes speculatively.
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

// giveDrafts gives the request of x the tokens that the pass has accepted, as many as it still wants, and reports
// whether the last was among them. Tokens after the end of the answer stay in the pool until the request ends, as does
// the token before a last one, except with prompts.
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

// runEmptyPass runs the pass that is planned when no request is left: the drafts of the one before it,
// which ended at c.left, turned out to end all requests. It reports whether a request that has
// come meanwhile waits for its end.
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
