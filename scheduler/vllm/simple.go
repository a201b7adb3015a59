package vllm

import (
	"slices"

	"github.com/replay-llm/replay/scheduler/vllm/host"
	"github.com/replay-llm/replay/scheduler/vllm/simplecpu"
)

// simple is vLLM's SimpleCPUOffloadConnector in the scheduler (docs/rules/vllm.md, "SimpleCPUOffloadConnector").
type simple struct {
	*simplecpu.Connector
	conn *connector
	simplecpu.Book
}

func newSimple(k *connector) *simple {
	cfg := &k.core.cfg
	return &simple{
		Connector: simplecpu.New(&cfg.Offload, cfg.BlockTokens, cfg.RankedHost), conn: k,
		Book: simplecpu.NewBook(cfg.Capture),
	}
}

// preempt records that r is preempted by the current plan.
func (s *simple) preempt(r *request) {
	u := s.User(r.slot)
	if s.Flush = true; s.Finishes {
		u.Next = 0
	} else {
		u.Former = append(u.Former, r.held[:u.Known]...)
	}
	u.Known = 0
	s.SetDue(r.slot, false)
}

// lookUp returns how many blocks r can load after its hits cached blocks.
func (s *simple) lookUp(r *request, hits int) int {
	c := s.conn.core
	key := func(i int) simplecpu.Key { return s.conn.device.keyOf(r, i) }
	return s.Lookup(s.User(r.slot), hits, c.findableTokens(r)>>c.shift, key)
}

// load starts to load the found blocks of r, from from up to end.
func (s *simple) load(r *request, from, end int) {
	f := r.offload
	f.Prefilling, f.Arrived, f.From, f.To = true, false, from, end
	if s.Load(s.User(r.slot), f) {
		s.conn.Pending++
	}
}

// offerBlocks offers the blocks that the requests of f have computed before f. Requests admitted in f come first.
func (s *simple) offerBlocks(f *flight) {
	c := s.conn.core
	for _, all := range [...][]slot{s.Fresh, s.Again} {
		for _, at := range all {
			if r := &c.requests[at]; r.isPlanned(f) && r.plan == f.plan {
				s.offerShare(&f.shares[r.planned])
			}
		}
	}
	if s.Dues == 0 {
		for i := range f.shares {
			if x := &f.shares[i]; !x.dropped && c.requests[x.slot].order <= s.Before {
				s.offerShare(x)
			}
		}
		return
	}
	for _, at := range c.running {
		switch r := &c.requests[at]; {
		case r.order > s.Before:
			return
		case r.plan == f.plan:
			s.offerShare(&f.shares[r.planned])
		case r.state == steady && s.IsDue(at):
			computed, known := s.countSteady(r)
			s.offer(r, computed-(r.target+computed-r.computed-known), computed+1)
		}
	}
}

// countSteady returns the tokens of the steady request r that are computed before the planned pass, and its known
// tokens.
func (s *simple) countSteady(r *request) (computed, known int) {
	c := s.conn.core
	n := c.plans - r.since
	return r.computed + int(n), c.knownTokens(r) + int(n-min(n, c.plans-1-c.calm.delivered))
}

// nameFilled names b if the planned pass fills it with answer tokens. If b is not filled yet, the plan that opens the
// next block names it.
func (s *simple) nameFilled(b blockID) {
	c := s.conn.core
	for _, at := range c.running {
		r := &c.requests[at]
		if !slices.Contains(r.held, b) {
			continue
		}
		after, known := r.computed, c.knownTokens(r)
		if r.state == steady && r.since <= c.plans {
			after, known = s.countSteady(r)
			after++
		}
		c.nameBlocks(r, min(after, known))
	}
}

// offerShare offers blocks of the request of share x.
func (s *simple) offerShare(x *share) {
	r := &s.conn.core.requests[x.slot]
	before := int(x.before)
	s.offer(r, before-(int(x.target)-s.conn.core.knownTokens(r)), before+int(x.tokens))
}

// offer offers the blocks of r that are complete with the given number of computed tokens; after is this number after
// the planned pass.
func (s *simple) offer(r *request, tokens, after int) {
	shift := s.conn.core.shift
	u := s.User(r.slot)
	u.Known = len(r.held)
	s.begin(s.Offer(u, s.offerOf(r, tokens>>shift)))
	s.SetDue(r.slot, u.Next < after>>shift)
}

// leave offers the remaining blocks of r, which is about to end.
func (s *simple) leave(r *request) {
	if c := s.conn.core; s.Finishes && len(r.held) > 0 && r.state != loading {
		o := s.offerOf(r, (r.computed-(r.target-c.knownTokens(r)))>>c.shift)
		o.Ended = true
		s.begin(s.Offer(s.User(r.slot), o))
	}
}

// begin counts a transfer if one begins, and records the evictions for it.
func (s *simple) begin(begins bool) {
	if begins {
		s.conn.Pending++
	}
	s.NoteGone(s.TakeRemoved(), s.conn.Out)
}

// offerOf returns an offer of the blocks of r, of which the first ready are computed.
func (s *simple) offerOf(r *request, ready int) *simplecpu.Offer {
	d, u := s.conn.device, s.User(r.slot)
	return &simplecpu.Offer{
		Ready: ready,
		At: func(i int) (b blockID, ok bool) {
			if i < len(u.Former) {
				return u.Former[i], true
			}
			if i -= len(u.Former); i >= len(r.held) {
				return noBlock, false
			}
			return r.held[i], true
		},
		Key: func(b blockID) (key simplecpu.Key, ok bool) {
			if d.all[b].key == unnamed && len(u.Former) > 0 {
				s.nameFilled(b)
			}
			key = d.all[b].key
			return key, key != unnamed
		},
		Hold: func(b blockID, i int, key simplecpu.Key) {
			if d.holdBlock(b); d.told && i >= len(u.Former) {
				s.NoteHashes(key, d.core.events.HashesOf(r.names(), i-len(u.Former)))
			}
		},
	}
}

// complete ends j, which a pass has reported as ended.
func (s *simple) complete(j *simplecpu.Job) {
	s.conn.Pending--
	for _, l := range j.Loads {
		if l.Of != nil {
			l.Of.Arrived = true
		} else {
			s.conn.device.dropHolders(l.Held)
		}
	}
	s.Complete(j, func(key simplecpu.Key) { s.NoteStored(key, s.conn.Out) })
	for _, b := range j.Places {
		s.conn.device.dropHolder(b)
	}
}

// orphan reports whether f loads, and if so makes the load release the held blocks at its end.
func (s *simple) orphan(f *host.Request, held []blockID) bool { return s != nil && s.Orphan(f, held) }
