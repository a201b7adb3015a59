package vllm

import (
	"slices"
	"sort"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm/host"
	"github.com/replay-llm/replay/scheduler/vllm/nixl"
	"github.com/replay-llm/replay/scheduler/vllm/segment"
	"github.com/replay-llm/replay/sim"
)

// connector is vLLM's OffloadingConnector in the scheduler: its effects on admission and on KV blocks
// (docs/rules/vllm.md, "Host memory").
type connector struct {
	*host.Connector
	core     *Core
	blocks   stock
	device   *device     // blocks as single blocks; nil if blocks are segments
	hosts    bool        // the engine has host memory
	fences   bool        // blocks that a running pass writes to are released after the pass
	simple   *simple     // the SimpleCPUOffloadConnector; nil: none
	remote   *nixl.Ended // KV caches transferred from prefill to decode workers; nil: none
	aside    []slot      // requests out of the queue, in order; such requests load, have loaded or, by the rules of 0.24, wait for a copy
	admitted []slot      // requests admitted by the current plan, or with a load that starts with it
	away     int         // number of pending transfers between workers
	watching bool        // taken is recorded
	taken    []takenBlock
	fenced   []fence
	fencing  bool        // a running pass writes to the blocks that are released next
	orphans  []*host.Job // loads of canceled requests
	loop
	written []scheduler.Pull // KV caches to be written to decode workers, of requests that have left since the previous plan
}

// takenBlock is a block that a request has allocated.
type takenBlock struct {
	slot  slot
	block blockID
}

// fence contains the blocks of a request that are released after the pass of plan has ended.
type fence struct {
	plan     int64
	blocks   []blockID         // blocks of a device
	holdings []segment.Holding // named blocks in segments
	unnamed  int               // number of unnamed blocks in segments
}

// keys computes the keys of a request's blocks for host memory.
type keys struct {
	device  *device
	request request // the data of the request for its keys
}

// Span returns the key of block i, and the number of blocks from i on, at most most, with consecutive keys.
func (k *keys) Span(i, most int) (key int64, blocks int) {
	return k.device.keyOf(&k.request, i), k.device.countAlike(&k.request, i, most)
}

// Hashes returns the data of block i for events.
func (k *keys) Hashes(i int) blocks.Hashes {
	return k.device.core.events.HashesOf(k.request.names(), i)
}

func newConnector(c *Core, all stock, d *device) *connector {
	k := &connector{Connector: host.NewConnector(&c.cfg.Offload, c.cfg.BlockTokens, c.cfg.RankedHost, c.cfg.Capture), core: c, blocks: all, device: d}
	if k.hosts, k.fences = c.cfg.Offload.Given() && !c.cfg.SimpleHost, true; c.cfg.SimpleHost && c.cfg.Offload.Blocks > 1 && c.cfg.PrefixCaching {
		k.simple = newSimple(k)
	}
	if d != nil {
		d.ordered = c.cfg.Offload.Given()
	}
	if c.cfg.Pull {
		k.fences = c.cfg.Role == scheduler.Decode
		k.remote = &nixl.Ended{Late: c.cfg.Push && k.fences}
	}
	return k
}

// beginRequest registers r with the connector.
func (k *connector) beginRequest(r *request) {
	if r.offload = k.Add(r.id, r.input>>k.core.shift); k.device == nil {
		return
	}
	names, ok := r.offload.Keyer.(*keys)
	if !ok {
		names = &keys{device: k.device}
		r.offload.Keyer = names
	}
	if k.simple != nil {
		k.simple.BeginRequest(r.slot)
	}
	names.request = request{id: r.id, keeping: keeping{path: r.path, full: r.full, shared: r.shared}}
}

// endRequest unregisters the request in slot s, which has left and holds no blocks.
func (k *connector) endRequest(s slot) {
	k.forgetTransfer(&k.core.requests[s])
	k.aside = slices.DeleteFunc(k.aside, func(x slot) bool { return x == s })
	if k.simple != nil {
		k.simple.Unpin(k.simple.User(s))
		k.simple.SetDue(s, false)
	}
	k.End(k.core.requests[s].offload)
}

// releaseBlocks releases the blocks of r, last to first; ends tells whether r ends. If a running pass writes to the
// blocks, the blocks are released after the pass. The blocks of a load in progress are released after the load.
func (k *connector) releaseBlocks(r *request, ends bool) {
	f := r.offload
	if ends {
		k.leave(r)
	}
	switch load := k.LoadOf(f); {
	case ends && k.simple.orphan(f, r.held): // the blocks are released with the load
	case load != nil && ends:
		load.Held = slices.Clone(r.held)
		k.orphans = append(k.orphans, load)
	case k.fencing && r.blocks > 0:
		k.fenced = append(k.fenced, fence{k.latestPlan(), slices.Clone(r.held), slices.Clone(r.holdings), r.blocks - r.named})
	default:
		k.blocks.releaseBlocks(r)
		k.fencing = false
		return
	}
	k.fencing = false
	r.held, r.holdings, r.blocks, r.named = r.held[:0], r.holdings[:0], 0, 0
}

// leave notifies the connectors that r, which is about to end, releases its blocks.
func (k *connector) leave(r *request) {
	if k.hosts {
		k.Leave(r.offload, r.held, r.computed>>k.core.shift)
	}
	if k.simple != nil {
		k.simple.leave(r)
	}
}

// latestPlan returns the number of the latest plan of an unfinished pass with any work, or 0 if there is none.
func (k *connector) latestPlan() int64 {
	if k.core.rules.TwoInFlight && k.queued > 0 && k.core.next.ran {
		return k.core.next.plan
	}
	return 0
}

// isInFlight reports whether a running pass computes tokens of s.
func (k *connector) isInFlight(s slot) bool {
	r, plan := &k.core.requests[s], k.latestPlan()
	return plan > 0 && (r.state == steady || r.plan == plan || r.plan == k.core.plans && r.before == plan)
}

// keepsVictim reports whether preemption is useless, because the blocks of the victim could not be reused
// immediately.
func (k *connector) keepsVictim() bool {
	return k.fences && k.Memory.Ranked && k.isInFlight(k.core.running[k.core.victim()])
}

// preempt notifies the connectors that s is preempted.
func (k *connector) preempt(s slot) {
	if k.fencing = k.fences && k.isInFlight(s); !k.fences && k.Memory.Ranked {
		k.dropToken(s)
	}
	if k.simple != nil {
		k.simple.preempt(&k.core.requests[s])
	}
	k.Preempt(k.core.requests[s].offload)
}

// drainFences releases the blocks that waited for the end of f.
func (k *connector) drainFences(f *flight) {
	for len(k.fenced) > 0 && k.fenced[0].plan <= f.plan {
		k.blocks.releaseFence(&k.fenced[0])
		k.fenced = k.fenced[1:]
		k.core.stuck = false
	}
}

// countReserved returns the number of blocks that requests with unfinished prompts will still allocate.
func (k *connector) countReserved() (n int) {
	for _, all := range [...][]slot{k.core.calm.lively, k.aside} {
		for _, s := range all {
			if r := &k.core.requests[s]; r.offload.Prefilling {
				n += max(0, (k.core.knownTokens(r)+k.core.mask)>>k.core.shift-r.blocks)
			}
		}
	}
	return n
}

// planWaiting admits requests from the queue, or starts to load for them, which moves them out of the queue. Requests
// out of the queue are tried first. By the rules of 0.24 with priorities, the more urgent of the two first requests
// is tried.
func (k *connector) planWaiting(p *pass) {
	c := k.core
	p.ran = len(p.flight.shares)
	ranked := c.cfg.Scheduling == ByPriority
	merged := ranked && !k.Memory.Ranked
	more, i, j, n := true, 0, 0, len(k.aside)
	for more && !c.cfg.IsFull(len(c.running)) && p.budget > 0 && (i < n || j < c.waiting.Len()) {
		all, at, out := c.waiting.All(), &j, i < n
		if out && (!merged || j == len(all) || c.requests[k.aside[i]].rank.before(&c.requests[all[j]].rank)) {
			all, at = k.aside, &i
		} else {
			out = false
		}
		s := all[*at]
		switch a := k.admit(p, s); {
		case a == refused:
			more = false
		case a == admitted && out:
			k.aside, n = slices.Delete(k.aside, i, i+1), n-1
		case a == skipped && !out && (c.requests[s].state == loading || !k.Memory.Ranked):
			c.waiting.Remove(s)
			k.aside = append(k.aside, s)
		case a == skipped:
			*at++
		}
	}
	if ranked && len(k.aside) > 1 {
		sort.Slice(k.aside, func(i, j int) bool { return c.requests[k.aside[i]].rank.before(&c.requests[k.aside[j]].rank) })
	}
}

// answer is the result of trying to admit a request.
type answer uint8

const (
	admitted answer = iota
	skipped         // later requests may overtake the request
	refused         // no later request is tried
)

// admit admits s if there is room for it, or starts to load its blocks.
func (k *connector) admit(p *pass, s slot) answer {
	c := k.core
	r := &c.requests[s]
	if r.state == loading {
		if !r.offload.Arrived {
			return skipped
		}
		k.endLoad(r)
	}
	hits, cached, pulled := r.blocks, r.computed, r.blocks > 0 && r.isPulled()
	if r.blocks == 0 {
		hits = c.pool.Cached(s)
		switch more, ok := k.lookUp(r, hits); {
		case !ok:
			return skipped
		case k.pulls(r):
			return k.pull(r, hits)
		case more > 0:
			return k.load(r, hits, hits+more)
		}
		if hits > 0 && c.drafts.recomputesHit() {
			hits--
		}
		cached = min(hits<<c.shift, c.findableTokens(r))
	}
	before, from := len(c.running), r.offload.From
	c.admitRequest(p, s, hits, cached)
	if len(c.running) == before {
		return refused
	}
	if pulled {
		p.out.Admitted[len(p.out.Admitted)-1].Reused = from << c.shift
	}
	k.admitted = append(k.admitted, s)
	if k.simple != nil {
		k.simple.NoteAdmitted(s, p.out.Admitted[len(p.out.Admitted)-1].Again)
	}
	r.offload.Prefilling = r.midway
	return admitted
}

// lookUp returns how many blocks r can load from host memory after its hits cached blocks. ok is false if the lookup
// must be repeated later.
func (k *connector) lookUp(r *request, hits int) (blocks int, ok bool) {
	switch {
	case k.hosts:
		return k.Lookup(r.offload, hits, k.core.cfg.PrefixCaching)
	case k.simple != nil:
		return k.simple.lookUp(r, hits), true
	}
	return 0, true
}

// load starts to load the blocks of r from hits up to end, if there is room for them.
func (k *connector) load(r *request, hits, end int) answer {
	if !k.takeRoom(r, hits, end) {
		return refused
	}
	if k.simple != nil {
		k.simple.load(r, hits, end)
	} else {
		k.Load(r.offload, hits, end)
	}
	r.computed = end << k.core.shift
	r.offload.Lost, r.state = r.state == preempted, loading
	k.admitted = append(k.admitted, r.slot)
	return skipped
}

// takeRoom allocates blocks for r from hits up to end if there is room for them.
func (k *connector) takeRoom(r *request, hits, end int) bool {
	c := k.core
	free, whole := c.supply.free, 0
	if w := c.rules.Watermark; w > 0 && len(c.running) > 0 {
		free -= int(w * float64(c.cfg.Blocks))
	}
	if c.rules.ReserveWhole {
		whole = (r.target + c.mask) >> c.shift
	}
	if !c.pool.hasRoom(r, hits, end, 0, free-k.countReserved()) || !c.pool.hasRoom(r, hits, whole, 0, free) {
		return false
	}
	k.blocks.holdHits(r, hits)
	return c.pool.takeBlocks(r, end)
}

// endLoad names the loaded blocks of r, so that they can be found.
func (k *connector) endLoad(r *request) {
	k.core.nameBlocks(r, r.computed)
	r.computed = min(r.computed, r.target-1)
	r.state = waiting
	if r.offload.Lost {
		r.state = preempted
	}
}

// closePlan passes f, which was planned at the given instant, to the worker.
func (k *connector) closePlan(f *flight, at sim.Time) (err error) {
	if k.Storing {
		k.eachTaken(f, k.Reuse)
	}
	if k.hosts {
		k.offerBlocks(f)
	}
	if len(k.Ended) > 0 {
		k.OfferEnded(func(all []host.Block) (taken bool) {
			k.eachTaken(f, func(b blockID) { taken = taken || slices.Contains(all, b) })
			return taken
		})
	}
	k.admitted, k.taken = k.admitted[:0], k.taken[:0]
	f.end = k.Begin(at)
	f.taken = k.Taken
	if k.simple != nil {
		k.simple.offerBlocks(f)
		f.taken = max(f.taken, k.simple.Begin(at))
		f.end = max(f.end, f.taken)
	}
	k.beginPulls(f.taken)
	if f.ran = !f.isEmpty(); f.ran {
		err = k.timePass(f)
		k.Free = f.end
	}
	if f.done = k.Finish(k.Free, f.done[:0]); k.simple != nil {
		f.copied = k.simple.Finish(k.Free, f.copied[:0])
	}
	return err
}

// eachTaken calls use with the blocks that requests allocated in the plan of f, and with all blocks of the admitted
// requests.
func (k *connector) eachTaken(f *flight, use func(blockID)) {
	for _, s := range k.admitted {
		if r := &k.core.requests[s]; r.state == loading || r.isPlanned(f) {
			for _, b := range r.held {
				use(b)
			}
		}
	}
	for _, t := range k.taken {
		if k.core.requests[t.slot].isPlanned(f) {
			use(t.block)
		}
	}
}

// isPlanned reports whether f, the latest plan, computes tokens of r.
func (r *request) isPlanned(f *flight) bool {
	return r.state == steady || r.state == running && r.plan == f.plan
}

// offerBlocks offers prompt blocks that f fills to host memory.
func (k *connector) offerBlocks(f *flight) {
	c := k.core
	if k.Failing > 0 {
		for _, s := range c.running {
			if r := &c.requests[s]; r.state == steady {
				k.Offer(r.offload, r.offload.Chunks)
			} else if r.plan == f.plan {
				k.offerShare(&f.shares[r.planned])
			}
		}
		return
	}
	for i := range f.shares {
		x := &f.shares[i]
		if r := &c.requests[x.slot]; !x.dropped && (int(x.before) < r.input || r.offload.Next < r.offload.Chunks) {
			k.offerShare(x)
		}
	}
}

// offerShare offers the blocks that share x fills.
func (k *connector) offerShare(x *share) {
	r := &k.core.requests[x.slot]
	k.Offer(r.offload, min(int(x.before+x.tokens), r.input)>>k.core.shift)
}

// finishJobs completes the transfers that f reports.
func (k *connector) finishJobs(f *flight) {
	for _, j := range f.done {
		if j.Orphan {
			k.device.dropHolders(j.Held)
			k.orphans = slices.DeleteFunc(k.orphans, func(x *host.Job) bool { return x == j })
		}
		k.Complete(j)
		k.core.stuck = false
	}
	f.done = f.done[:0]
	for _, j := range f.copied {
		k.simple.complete(j)
		k.core.stuck = false
	}
	f.copied = f.copied[:0]
	k.finishTransfers(f)
}
