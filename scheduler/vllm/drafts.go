package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// drafts is speculative decoding.
type drafts struct {
	core *Core
	// Of requests that ended with the latest pass and with the one before: a pass that is planned may have
	// a share for them.
	parting, parted []slot
	ahead           bool     // a block is known by the token after it, too
	draftSlots      int      // tokens of the budget that the drafter takes for each request of a pass
	left            sim.Time // when no request was left for the planned pass; 0: one is
	awake           sim.Time // the end of the latest nap
}

// speculation is the state of a request of an engine with speculative decoding. Its target counts drafts in flight as
// accepted, as vLLM does until their pass has ended.
type speculation struct {
	draws    uint64 // what is accepted depends on
	drafts   int    // proposed for its next pass; without any those of a share are padding
	sampled  int    // answer tokens that passes have sampled, delivered or not
	rejected int    // drafts that passes in flight have rejected, while the request keeps its place
}

// lookahead returns for how many tokens more than it computes a request gets
// blocks, so that the drafter finds room.
func (d *drafts) lookahead(r *request) int {
	s := d.core.cfg.Speculation
	if s == nil || s.Method == scheduler.ByLookup || r.state != running && !d.core.rules.DraftRoom {
		return 0
	}
	return s.Tokens
}

// addLookahead returns tokens and lookahead, as far as the longest sequence goes.
func (d *drafts) addLookahead(r *request, tokens int) int {
	if tokens += d.lookahead(r); d.boundsDrafts() {
		return min(tokens, d.core.cfg.MaxLength)
	}
	return tokens
}

// boundsDrafts reports whether drafts may exceed the longest sequence.
func (d *drafts) boundsDrafts() bool {
	return d.core.cfg.Speculation != nil && d.core.cfg.MaxLength != Unlimited
}

// recomputesHit reports whether the last block that a request finds is computed again,
// for the hidden states that the drafter reads.
func (d *drafts) recomputesHit() bool {
	return d.core.cfg.Speculation != nil && d.core.cfg.Speculation.Method == scheduler.ByHead && !d.core.rules.HashAhead
}

// padsDrafts reports whether a request that is admitted with one token to compute gets padding drafts: if all running
// requests verify as many.
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

// padsTooFar reports whether drafts that are none would leave a request with that many cached tokens no
// room for the token that it samples.
func (d *drafts) padsTooFar(cached int) bool {
	return d.core.rules.PadAlone && d.core.cfg.MaxLength != Unlimited && cached+2+d.core.cfg.Speculation.Tokens > d.core.cfg.MaxLength
}

// wantsDrafts reports whether r, which the planned pass computes by x, may verify
// the drafts that are made after it. It may not if x ends before the last token that is known,
// and if it samples the last token of the answer, however many drafts in flight are rejected.
func (d *drafts) wantsDrafts(r *request, x *share) bool {
	sure := r.given + 1
	if int(x.target) > d.core.knownTokens(r) {
		sure++
	}
	return x.samples && sure < r.end-r.input
}

// draftsAfter returns how many drafts of each request are made after the pass f.
func (d *drafts) draftsAfter(f *flight) int {
	s := d.core.cfg.Speculation
	if s == nil || d.core.rules.SkipDrafts && s.Method != scheduler.ByLookup && !f.drafted {
		return 0
	}
	return s.Tokens
}

// endsInFlight reports whether r has all its tokens once the pass in flight ends,
// however many drafts that accepts.
func (d *drafts) endsInFlight(r *request) bool {
	return r.target >= r.end && (d.core.cfg.Speculation == nil || r.target > d.core.knownTokens(r) && d.core.knownTokens(r)+1 >= r.end)
}

// namesAtEnd reports whether blocks that passes have filled since the request was planned
// last can be found once it loses its place or ends.
func (d *drafts) namesAtEnd() bool {
	return d.core.cfg.Speculation == nil || d.core.rules.TwoInFlight || d.core.rules.NameAccepted
}

// sampleDrafts enters the drafts of a share that samples: how many are accepted shows
// only when the pass ends.
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

// giveDrafts gives the request of x the tokens that its pass sampled, as many as it
// still wants, and reports whether the last was among them.
func (d *drafts) giveDrafts(x *share, p *scheduler.Pass) (last bool) {
	r := &d.core.requests[x.slot]
	if r.state == gone { // the pass before had all that it wanted
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

// runEmptyPass runs the pass that is planned when the one before it ends at p.End and
// no request is left: the drafts of that turned out to end all requests. A request that
// comes while it runs waits for its end.
func (d *drafts) runEmptyPass(now sim.Time) error {
	if d.left == 0 || now <= d.left {
		return nil
	}
	ms, err := d.core.cfg.Clock.Step(&d.core.next.step)
	d.awake = d.left + sim.Time(ms)
	d.core.next.clear()
	return err
}

// freeSlots ends a pass: it makes the slots of requests that have ended free for other requests once no pass
// that is planned speaks of them.
func (d *drafts) freeSlots(now sim.Time) {
	if d.left = 0; d.core.live == 0 && !d.core.next.isEmpty() {
		d.left = now
	}
	d.core.unused = append(d.core.unused, d.parted...)
	d.parted, d.parting = append(d.parted[:0], d.parting...), d.parting[:0]
}
