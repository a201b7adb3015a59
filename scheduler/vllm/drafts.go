package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// drafts is the state of speculative decoding.
type drafts struct {
	core *Core
	// Slots of requests that ended with the latest pass, and with the previous pass. A planned pass may still have
	// shares for these requests.
	parting, parted []slot
	ahead           bool     // a block is identified by its tokens and the next token
	draftSlots      int      // tokens of the budget that the drafter uses for each request of a pass
	left            sim.Time // time at which no request was left for the planned pass; 0: not the case
	awake           sim.Time // end of the latest sleep
}

// speculation is the state of a request with speculative decoding. The target of such a request counts drafts in
// flight as accepted, as vLLM does until their pass has ended.
type speculation struct {
	draws    uint64 // key for the random draws of acceptance
	drafts   int    // drafts proposed for the request's next pass; if 0, the drafts of a share are padding
	sampled  int    // answer tokens sampled by passes, delivered or not
	rejected int    // drafts that passes in flight have rejected, since the latest admission
}

// lookahead returns the number of additional tokens for which a request gets blocks, to make room for drafts.
func (d *drafts) lookahead(r *request) int {
	s := d.core.cfg.Speculation
	if s == nil || s.Method == scheduler.ByLookup || r.state != running && !d.core.rules.DraftRoom {
		return 0
	}
	return s.Tokens
}

// addLookahead returns tokens plus lookahead, limited to the longest sequence.
func (d *drafts) addLookahead(r *request, tokens int) int {
	if tokens += d.lookahead(r); d.boundsDrafts() {
		return min(tokens, d.core.cfg.MaxLength)
	}
	return tokens
}

// boundsDrafts reports whether drafts must be limited to the longest sequence.
func (d *drafts) boundsDrafts() bool {
	return d.core.cfg.Speculation != nil && d.core.cfg.MaxLength != Unlimited
}

// recomputesHit reports whether the last cached block of a request is computed again, because the drafter reads its
// hidden states.
func (d *drafts) recomputesHit() bool {
	return d.core.cfg.Speculation != nil && d.core.cfg.Speculation.Method == scheduler.ByHead && !d.core.rules.HashAhead
}

// padsDrafts reports whether a request that is admitted with one token to compute gets padding drafts. Padding drafts
// are added if all running requests verify the maximum number of drafts.
func (d *drafts) padsDrafts(p *pass, cached int) bool {
	s := d.core.cfg.Speculation
	if s == nil || !d.core.rules.PadDrafts || p.ran == 0 && !(d.core.rules.PadAlone && cached > 0) {
		return false
	}
	for i := range p.ran {
		if x := &p.flight.shares[i]; !x.dropped && int(x.drafts) != s.Tokens {
			return false
		}
	}
	return true
}

// padsTooFar reports whether padding drafts would leave a request with the given number of cached tokens no room for
// its sampled token.
func (d *drafts) padsTooFar(cached int) bool {
	return d.core.rules.PadAlone && d.core.cfg.MaxLength != Unlimited && cached+2+d.core.cfg.Speculation.Tokens > d.core.cfg.MaxLength
}

// wantsDrafts reports whether r, which the planned pass computes by x, may verify the drafts that are made after it.
// r may not verify drafts if x ends before the last known token. r also may not verify drafts if x samples the last
// token of the answer, even if all drafts in flight are rejected.
func (d *drafts) wantsDrafts(r *request, x *share) bool {
	sure := r.given + 1
	if int(x.target) > d.core.knownTokens(r) {
		sure++
	}
	return x.samples && sure < r.end-r.input
}

// draftsAfter returns how many drafts per request are made after pass f.
func (d *drafts) draftsAfter(f *flight) int {
	s := d.core.cfg.Speculation
	if s == nil || d.core.rules.SkipDrafts && s.Method != scheduler.ByLookup && !f.drafted {
		return 0
	}
	return s.Tokens
}

// endsInFlight reports whether r has all its tokens after the pass in flight, even if that pass accepts no drafts.
func (d *drafts) endsInFlight(r *request) bool {
	return r.target >= r.end && (d.core.cfg.Speculation == nil || r.target > d.core.knownTokens(r) && d.core.knownTokens(r)+1 >= r.end)
}

// namesAtEnd reports whether blocks that were filled since the latest plan of a request are named when it ends or is
// preempted.
func (d *drafts) namesAtEnd() bool {
	return d.core.cfg.Speculation == nil || d.core.rules.TwoInFlight || d.core.rules.NameAccepted
}

// sampleDrafts records the drafts of a share that samples. The number of accepted drafts becomes known to the
// scheduler only when the pass ends.
func (d *drafts) sampleDrafts(x *share, r *request, drafts int) {
	s := d.core.cfg.Speculation
	x.before -= int32(r.spec.rejected)
	x.drafts, x.accepted = int32(drafts), 0
	if x.verifies = drafts > 0 && r.spec.drafts > 0; x.verifies {
		x.accepted = int32(s.Accepted(r.spec.draws, r.spec.sampled, drafts))
	}
	r.target = r.computed + 1
	r.spec.sampled += int(x.accepted) + 1
	r.spec.rejected += int(x.drafts - x.accepted)
	r.spec.drafts = s.Tokens
}

// giveDrafts gives the request of x the tokens that its pass sampled, up to the end of its answer, and reports
// whether it gained its last token.
func (d *drafts) giveDrafts(x *share, p *scheduler.Pass) (last bool) {
	r := &d.core.requests[x.slot]
	if r.state == gone { // the previous pass completed the request
		return false
	}
	rejected := int(x.drafts - x.accepted)
	r.target -= rejected
	if r.state == running {
		r.computed -= rejected
		r.spec.rejected -= rejected
	}
	if x.verifies {
		p.Verified++
		p.Drafts += int(x.drafts)
		p.Accepted += int(x.accepted)
	}
	if more := min(int(x.accepted), r.end-d.core.knownTokens(r)-1); more > 0 {
		p.AddAccepted(r.id, r.given+1, more)
		r.given += more
	}
	return d.core.giveToken(x.slot, p)
}

// runEmptyPass runs a planned pass for which no request is left, because accepted drafts of the previous pass
// completed all requests. A request that arrives during this pass waits for its end.
func (d *drafts) runEmptyPass(now sim.Time) error {
	if d.left == 0 || now <= d.left {
		return nil
	}
	ms, err := d.core.cfg.Clock.Step(&d.core.next.step)
	d.awake = d.left + sim.Time(ms)
	d.core.next.clear()
	return err
}

// freeSlots ends a pass. freeSlots makes slots of ended requests available when no planned pass refers to them.
func (d *drafts) freeSlots(now sim.Time) {
	if d.left = 0; d.core.live == 0 && !d.core.next.isEmpty() {
		d.left = now
	}
	d.core.unused = append(d.core.unused, d.parted...)
	d.parted, d.parting = append(d.parted[:0], d.parting...), d.parting[:0]
}
