package reference_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// naive is the literal twin of the core. naive implements the documented rules: one pass per Step, every
// running request is visited in every pass, and the pool consists of maps. naive is simple rather than fast.
type naive struct {
	schedulertest.Twin
	config   vllm.Config
	requests map[sim.RequestID]*naiveRequest
	waiting  []sim.RequestID
	running  []sim.RequestID
	pool     *naivePool

	idle     int // number of consecutive passes without a token or a new maximum of computed tokens
	patience int // number of idle passes that is an error
	skips    int // number of running requests that passes skipped
	times    map[sim.RequestID][]sim.Time

	pass naivePass
}

// naivePass is the state of one pass.
type naivePass struct {
	budget     uint64
	scheduled  map[sim.RequestID]naiveShare
	batch      int // number of requests with prompt tokens to compute
	batchISL   int
	batchStart int // sum of prefixes in the batch
	preempted  int
	advanced   bool
}

// naiveShare is the number of tokens that one request got in the pass.
type naiveShare struct{ total, prompt, prefix int }

type naiveStatus int

const (
	waiting naiveStatus = iota
	running
	preempted
)

type naiveRequest struct {
	id       sim.RequestID
	status   naiveStatus
	computed int
	furthest int // maximum of computed so far
	seq      *naiveSequence
}

type naiveOutcome int

const (
	scheduled naiveOutcome = iota
	blocked
	currentPreempted
)

func newNaive(c vllm.Config) *naive {
	n := &naive{
		config:   c,
		requests: make(map[sim.RequestID]*naiveRequest),
		pool:     newNaivePool(c.Blocks),
		times:    make(map[sim.RequestID][]sim.Time),
		patience: 100_000,
	}
	n.pool.capture = c.Capture == scheduler.CaptureEvents
	return n
}

func (n *naive) Submit(r *sim.Request) {
	n.requests[r.ID] = &naiveRequest{id: r.ID, seq: n.newSequence(r)}
	n.waiting = append(n.waiting, r.ID)
}

func (n *naive) Load() int { return len(n.requests) }

func (n *naive) Step(now, _ sim.Time, p *scheduler.Pass) error {
	p.Reset(now)
	n.pass = naivePass{budget: math.MaxUint64, scheduled: make(map[sim.RequestID]naiveShare)}
	if n.config.MaxBatchedTokens != vllm.Unlimited {
		n.pass.budget = uint64(n.config.MaxBatchedTokens)
	}
	n.compact()
	n.scheduleRunning()
	n.scheduleWaiting(p)
	prefill, err := n.prefillTime()
	if err != nil {
		return err
	}
	p.End = now + prefill
	if err := n.emit(p); err != nil {
		return err
	}
	p.Gap = p.End - p.Start
	p.Preempted = n.pass.preempted
	for _, s := range n.pass.scheduled {
		p.PrefillTokens += s.prompt
	}
	p.Events = append(p.Events, n.pool.events...)
	n.pool.events = nil
	return n.stalled(p)
}

// compact removes requests from the running list that do not run any more.
func (n *naive) compact() {
	n.running = slices.DeleteFunc(n.running, func(id sim.RequestID) bool {
		r, ok := n.requests[id]
		return !ok || r.status != running
	})
}

// scheduleRunning iterates over the running list by index while preemptions change the list. Victims at the front of
// the list make it skip requests.
func (n *naive) scheduleRunning() {
	for i := 0; i < len(n.running) && n.pass.budget > 0; {
		id := n.running[i]
		switch outcome, _ := n.schedule(id, false); outcome {
		case scheduled:
			n.skips += max(0, min(i, len(n.running)-1)-slices.Index(n.running, id))
			i++
		case blocked:
			return
		}
	}
}

func (n *naive) scheduleWaiting(p *scheduler.Pass) {
	limit := n.config.MaxSeqs
	for n.pass.preempted == 0 && len(n.waiting) > 0 && (limit == vllm.Unlimited || len(n.running) < limit) {
		id := n.waiting[0]
		again := n.requests[id] != nil && n.requests[id].status == preempted
		outcome, cached := n.schedule(id, true)
		if outcome != scheduled {
			return
		}
		p.Admitted = append(p.Admitted, scheduler.Admission{Request: id, Again: again, Reused: cached})
		if n.pass.scheduled[id].total == 0 && n.pass.budget == 0 {
			return
		}
	}
}

// schedule schedules tokens of a request in the pass.
func (n *naive) schedule(id sim.RequestID, fromWaiting bool) (naiveOutcome, int) {
	r := n.requests[id]
	s := r.seq
	cached := 0
	if r.computed == 0 && n.config.PrefixCaching {
		cached = n.pool.cachedPrefix(s)
	}
	before := r.computed + cached
	promptBefore := min(before, s.input)
	remaining := max(s.len-before, 0)
	promptRemaining := s.input - promptBefore
	if promptRemaining > 0 && !n.config.ChunkedPrefill && uint64(promptRemaining) > n.pass.budget {
		return blocked, 0
	}
	want := int(min(uint64(remaining), n.pass.budget))
	if want == 0 && remaining > 0 {
		return blocked, 0
	}
	after, gone := n.allocate(r, before+want)
	if gone {
		return currentPreempted, 0
	}
	used := max(after-before, 0)
	if used == 0 && after < s.len {
		return blocked, 0
	}
	share := naiveShare{total: used, prompt: min(after, s.input) - promptBefore, prefix: promptBefore}
	n.pass.scheduled[id] = share
	n.count(share, 1)
	if r.computed > r.furthest {
		r.furthest, n.pass.advanced = r.computed, true
	}
	if fromWaiting {
		n.waiting = slices.DeleteFunc(n.waiting, func(other sim.RequestID) bool { return other == id })
		n.running = append(n.running, id)
		r.status = running
	}
	n.pass.budget -= min(uint64(used), n.pass.budget)
	return scheduled, cached
}

// allocate allocates blocks for the first target tokens of r. allocate preempts other requests and finally r; gone
// reports whether r was preempted. The result after is the number of tokens that are then computed.
func (n *naive) allocate(r *naiveRequest, target int) (after int, gone bool) {
	s := r.seq
	after = target
	for {
		if target <= s.allocated {
			r.computed = after
			return after, false
		}
		entries, parent := s.useFor(target)
		if len(entries) == 0 {
			s.allocated, r.computed = target, after
			return after, false
		}
		had := min(cdiv(s.allocated, s.size), len(s.blocks))
		got := n.pool.use(entries, parent)
		cover := target
		if got < len(entries) {
			cover = (had + got) * s.size
		}
		s.allocated = min(cover, target)
		r.computed = min(after, cover)
		if got == len(entries) {
			return after, false
		}
		victim := n.preempt()
		if victim == nil {
			return r.computed, false
		}
		if share, ok := n.pass.scheduled[victim.id]; ok {
			delete(n.pass.scheduled, victim.id)
			n.pass.budget += uint64(share.total)
			n.count(share, -1)
		}
		if victim == r {
			return 0, true
		}
	}
}

// count adds a share to the prefill batch, or removes it if sign is -1.
func (n *naive) count(s naiveShare, sign int) {
	if s.prompt > 0 && n.config.Role != scheduler.Decode {
		n.pass.batch += sign
		n.pass.batchISL += sign * (s.prefix + s.prompt)
		n.pass.batchStart += sign * s.prefix
	}
}

// preempt preempts the newest or the oldest running request, releases its blocks, and moves it to the front of the
// queue. preempt returns nil if no request runs.
func (n *naive) preempt() *naiveRequest {
	for len(n.running) > 0 {
		at := len(n.running) - 1
		if n.config.Preemption == vllm.FIFO {
			at = 0
		}
		r, ok := n.requests[n.running[at]]
		n.running = slices.Delete(n.running, at, at+1)
		if !ok || r.status != running {
			continue
		}
		r.status, r.computed = preempted, 0
		n.release(r.seq, r.seq.allocated)
		r.seq.allocated = 0
		n.waiting = slices.Insert(n.waiting, 0, r.id)
		n.pass.preempted++
		return r
	}
	return nil
}

// release releases the blocks of the first tokens, last block first.
func (n *naive) release(s *naiveSequence, tokens int) {
	for i := min(cdiv(tokens, s.size), len(s.blocks)) - 1; i >= 0; i-- {
		n.pool.deref(s.blocks[i])
	}
}

func (n *naive) prefillTime() (sim.Time, error) {
	b := n.pass
	if b.batch == 0 || n.config.Role == scheduler.Decode {
		return 0, nil
	}
	ms, err := n.config.Clock.Prefill(b.batch, b.batchISL/b.batch, b.batchStart/b.batch)
	return sim.Time(ms), err
}

// emit gives the next token to every request with all tokens computed.
func (n *naive) emit(p *scheduler.Pass) error {
	var ready []sim.RequestID
	length := 0
	for _, id := range n.running {
		if r := n.requests[id]; r.computed >= r.seq.len && r.seq.generated < r.seq.output {
			ready = append(ready, id)
			length += r.seq.len
		}
	}
	if len(ready) == 0 {
		return nil
	}
	start := p.End
	if n.config.Role != scheduler.Prefill {
		size := n.config.BlockTokens
		ms, err := n.config.Clock.Decode(len(ready), n.pool.active()*size, length/len(ready), n.config.Blocks*size)
		if err != nil {
			return err
		}
		p.End = start + sim.Time(ms)
	}
	for _, id := range ready {
		if r := n.requests[id]; r.status == running && n.generate(r) {
			n.signal(r, p)
		}
	}
	if p.Tokens == 0 {
		p.End = start
	} else {
		n.compact()
	}
	return nil
}

// generate appends a token to r and preempts other requests if it needs a block. generate reports false if r gets no
// block.
func (n *naive) generate(r *naiveRequest) bool {
	s := r.seq
	for !n.grow(s) {
		s.undo()
		if victim := n.preempt(); victim == nil || victim == r {
			return false
		}
	}
	if s.generated < s.output {
		s.allocated = s.len
	} else {
		n.release(s, s.len)
		delete(n.requests, r.id)
	}
	return true
}

// signal reports the latest token of r.
func (n *naive) signal(r *naiveRequest, p *scheduler.Pass) {
	s := r.seq
	p.Tokens++
	if times := n.times[r.id]; len(times) > 0 {
		if last := times[len(times)-1]; last == p.Start {
			p.Decoding++
		} else {
			p.Gaps = append(p.Gaps, p.End-last)
		}
	}
	n.times[r.id] = append(n.times[r.id], p.End)
	first, last := s.generated == 1, s.generated >= s.output
	if s.generated == 2 {
		p.Second = append(p.Second, r.id)
	}
	if !first && !last {
		return
	}
	m := scheduler.Mark{Request: r.id, First: first, Last: last, Tokens: s.generated}
	if last && n.config.Role == scheduler.Prefill {
		m.Handoff = n.config.Transfer.Delay(s.input)
	}
	p.Marks = append(p.Marks, m)
}

// stalled returns an error if a pass shows that the core will never make progress.
func (n *naive) stalled(p *scheduler.Pass) error {
	computed := 0
	for _, s := range n.pass.scheduled {
		computed += s.total
	}
	if p.Tokens > 0 || n.pass.advanced {
		n.idle = 0
	} else {
		n.idle++
	}
	dead := p.End == p.Start && p.Tokens == 0 && computed == 0 && len(p.Admitted) == 0 && n.pass.preempted == 0
	if !dead && n.idle < n.patience {
		return nil
	}
	head := append(slices.Clone(n.running), n.waiting...)[0]
	return &scheduler.StallError{Request: head, Reason: fmt.Sprintf("%d passes without progress", n.idle)}
}

var _ scheduler.Core = (*naive)(nil)
