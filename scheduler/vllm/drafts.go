package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Speculation is how an engine decodes speculatively: after every pass a drafter
// proposes tokens for each request that gained one, and the next pass verifies them.
type Speculation struct {
	Method scheduler.Drafter
	Tokens int // drafts per request and pass, > 0
	scheduler.Acceptance
}

// speculation is what a request needs where an engine decodes speculatively. Its
// target counts drafts in flight as accepted, as vLLM does until their pass has ended.
type speculation struct {
	draws    uint64 // what is accepted depends on
	drafts   int    // proposed for its next pass; without any those of a share are padding
	sampled  int    // answer tokens that passes have sampled, delivered or not
	rejected int    // drafts that passes in flight have rejected, while the request keeps its place
}

// lookahead returns for how many tokens beyond those it computes a request gets
// blocks, so that the drafter finds room.
func (c *Core) lookahead(r *request) int {
	s := c.cfg.Speculation
	if s == nil || s.Method == scheduler.ByLookup || r.state != running && !c.rules.DraftRoom {
		return 0
	}
	return s.Tokens
}

// addLookahead returns tokens and lookahead, as far as the longest sequence goes.
func (c *Core) addLookahead(r *request, tokens int) int {
	if tokens += c.lookahead(r); c.boundsDrafts() {
		return min(tokens, c.cfg.MaxLength)
	}
	return tokens
}

// boundsDrafts reports whether drafts may go beyond the longest sequence.
func (c *Core) boundsDrafts() bool { return c.cfg.Speculation != nil && c.cfg.MaxLength != Unlimited }

// recomputesHit reports whether the last block that a request finds is computed again,
// for the hidden states that the drafter reads.
func (c *Core) recomputesHit() bool {
	return c.cfg.Speculation != nil && c.cfg.Speculation.Method == scheduler.ByHead && !c.rules.HashAhead
}

// padsDrafts reports whether a request that is admitted with one token to compute gets
// drafts that are none: where all that ran before verify as many, so that it is like them.
func (c *Core) padsDrafts(p *pass, cached int) bool {
	s := c.cfg.Speculation
	if s == nil || !c.rules.PadDrafts || p.ran == 0 && !(c.rules.PadAlone && cached > 0) {
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
func (c *Core) padsTooFar(cached int) bool {
	return c.rules.PadAlone && c.cfg.MaxLength != Unlimited && cached+2+c.cfg.Speculation.Tokens > c.cfg.MaxLength
}

// wantsDrafts reports whether r, which the pass that is planned computes as x says, may verify
// the drafts that are made after it. It may not if x ends before the last token that is known,
// and if it samples the last token of the answer, however many drafts in flight are rejected.
func (c *Core) wantsDrafts(r *request, x *share) bool {
	sure := r.given + 1
	if int(x.target) > c.knownTokens(r) {
		sure++
	}
	return x.samples && sure < r.end-r.input
}

// draftsAfter returns how many drafts of each request are made after the pass f.
func (c *Core) draftsAfter(f *flight) int {
	s := c.cfg.Speculation
	if s == nil || c.rules.SkipDrafts && s.Method != scheduler.ByLookup && !f.drafted {
		return 0
	}
	return s.Tokens
}

// endsInFlight reports whether r has all its tokens once the pass in flight ends,
// however many drafts that accepts.
func (c *Core) endsInFlight(r *request) bool {
	return r.target >= r.end && (c.cfg.Speculation == nil || r.target > c.knownTokens(r) && c.knownTokens(r)+1 >= r.end)
}

// namesAtEnd reports whether blocks that passes have filled since the request was planned
// last can be found once it loses its place or ends.
func (c *Core) namesAtEnd() bool {
	return c.cfg.Speculation == nil || c.rules.TwoInFlight || c.rules.NameAccepted
}

// sampleDrafts enters the drafts of a share that samples: how many are accepted shows
// only when the pass ends.
func (c *Core) sampleDrafts(x *share, r *request, drafts int) {
	s := c.cfg.Speculation
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
func (c *Core) giveDrafts(x *share, p *scheduler.Pass) (last bool) {
	r := &c.requests[x.slot]
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
	if more := min(int(x.accepted), r.end-c.knownTokens(r)-1); more > 0 {
		p.AddAccepted(r.id, r.given+1, more)
		r.given += more
	}
	return c.giveToken(x.slot, p)
}

// passIdly runs the pass that is planned when the one before it ends at p.End and
// nobody is left: the drafts of that turned out to end all requests. A request that
// comes while it runs waits for its end.
func (c *Core) passIdly(now sim.Time) error {
	if c.left == 0 || now <= c.left {
		return nil
	}
	ms, err := c.cfg.Clock.Step(&c.next.step)
	c.awake = c.left + sim.Time(ms)
	c.next.clear()
	return err
}

// freeSlots ends a pass: it makes the slots of requests that have ended free for others once no pass
// that is planned speaks of them.
func (c *Core) freeSlots(now sim.Time) {
	if c.left = 0; c.live == 0 && !c.next.isEmpty() {
		c.left = now
	}
	c.unused = append(c.unused, c.parted...)
	c.parted, c.parting = append(c.parted[:0], c.parting...), c.parting[:0]
}
