package route

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

// picker connects a router.Dispatcher to workers and requests with arbitrary ids. picker maps these ids to the small
// ids of the dispatcher, and reuses a small id when it is free. picker is safe for concurrent use.
type picker struct {
	blockTokens int             // 0: the policy does not read prompts
	index       *kvevents.Index // caches of the workers; nil if blockTokens is 0
	options     *Options
	began       time.Time
	quit        chan struct{}

	mu      sync.Mutex
	router  *router.Dispatcher
	tickets []*ticket // by request id; nil if the id is free
	vacant  []sim.RequestID
	placed  []router.Placement
	number  map[uint64]sim.WorkerID // small id by worker
	worker  []uint64                // worker by small id
	follows map[uint64]*followed
	closed  bool
}

// ticket is a request that is queued or placed.
type ticket struct {
	sim.Request
	placed   chan router.Placement // has capacity 1
	sequence []uint64              // sequence hashes of the blocks
	cached   []router.Match        // the best rank of each worker, stored as rank 0
	ranks    []int32               // the real ranks of cached
	first    bool                  // the first token has arrived
	gone     bool
}

// ask is a request to place.
type ask struct {
	tokens  []uint32
	session string // "": no session
}

// newPicker returns a picker without workers. blockTokens and batchedTokens, the maximum tokens of a pass, are for
// policies that read caches.
func newPicker(name policy.Name, o *Options, blockTokens, batchedTokens int) (*picker, error) {
	if name.Info().Prompts {
		return nil, excerpt.Errorf("router is %q, which keeps the prompts that it has sent, and the frontend keeps none: use another router", string(name))
	}
	choose, err := policy.New(name, policy.Options{
		Config: o.Router, Role: o.Role, Seed: o.Seed, BlockTokens: blockTokens, MaxBatchedTokens: batchedTokens,
	})
	if err != nil {
		return nil, err
	}
	if h := choose.Needs().Hold; h != nil && (h.Order == router.WFQ || h.Order == router.EDF) {
		return nil, excerpt.Errorf("router_queue_policy is %q, and requests over HTTP have no class, use another order", h.Order)
	}
	p := &picker{
		options: o, began: time.Now(), quit: make(chan struct{}),
		number: make(map[uint64]sim.WorkerID), follows: make(map[uint64]*followed),
	}
	if name.Info().Caches {
		p.blockTokens, p.index = blockTokens, kvevents.NewIndex(o.Warn)
	}
	p.router = router.New(router.Options{
		Policy: choose, Hashes: p, BlockTokens: blockTokens,
		Names: func(w sim.WorkerID) uint64 { return p.worker[w] },
	})
	return p, nil
}

// Sequence returns the sequence hashes of the prompt of a request. The dispatcher calls Sequence while p.mu is held.
func (p *picker) Sequence(id sim.RequestID) []uint64 { return p.tickets[id].sequence }

// Cached returns the workers with cached blocks of the prompt of a request, and their number of blocks. The
// dispatcher calls Cached while p.mu is held.
func (p *picker) Cached(id sim.RequestID) []router.Match { return p.tickets[id].cached }

// errClosed reports that a picker was closed.
var errClosed = errors.New("the router is closed")

// pickWorker chooses one of the available workers, which must be in ascending order. While the policy queues the
// request, pickWorker waits until ctx or rc ends.
func (p *picker) pickWorker(ctx context.Context, rc cancel.Context, a ask, available []uint64) (drt.Choice, error) {
	t := p.newTicket(a)
	if err := p.routeTicket(t, available); err != nil {
		return drt.Choice{}, fault.New(fault.Unknown, "router: %w", err)
	}
	select {
	case placed := <-t.placed:
		return drt.Choice{
			Instance: p.nameOf(placed.Worker),
			Rank:     p.rankOf(t, placed.Worker),
			First:    func() { p.noteFirst(t) },
			Done:     func() { p.removeTicket(t) },
		}, nil
	case <-rc.Stopped():
		p.removeTicket(t)
		return drt.Choice{}, fault.New(fault.Cancelled, "cancelled while every worker was busy")
	case <-ctx.Done():
		p.removeTicket(t)
		return drt.Choice{}, fault.From(ctx.Err())
	case <-p.quit:
		p.removeTicket(t)
		return drt.Choice{}, fault.New(fault.Unknown, "router: %w", errClosed)
	}
}

// newTicket returns a request for the dispatcher, without its id.
func (p *picker) newTicket(a ask) *ticket {
	t := &ticket{placed: make(chan router.Placement, 1)}
	t.InputTokens, t.Session = len(a.tokens), sessionNumber(a.session)
	if p.index != nil {
		local := blockhash.Request(a.tokens, p.blockTokens, blockhash.Options{})
		t.sequence = blockhash.Sequence(local)
		t.cached, t.ranks = bestRanks(p.index.Match(local, nil))
		t.Prompt.Blocks = int32(len(local))
	}
	return t
}

// bestRanks keeps the rank with the most cached blocks of each worker. bestRanks stores the match as rank 0, because
// policies look up workers by rank 0. bestRanks also returns the real ranks.
func bestRanks(found []router.Match) (kept []router.Match, ranks []int32) {
	kept = found[:0]
	for _, m := range found {
		rank, last := m.Member.Rank, len(kept)-1
		m.Member.Rank = 0
		switch {
		case last < 0 || kept[last].Member != m.Member:
			kept, ranks = append(kept, m), append(ranks, rank)
		case m.Blocks > kept[last].Blocks:
			kept[last], ranks[last] = m, rank
		}
	}
	return kept, ranks
}

// rankOf returns the rank of a worker with the most cached blocks of a prompt. rankOf returns nil if the worker has
// one rank or caches no block.
func (p *picker) rankOf(t *ticket, w sim.WorkerID) *int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.follows[p.worker[w]]
	i := slices.IndexFunc(t.cached, func(m router.Match) bool { return m.Member.Worker == w })
	if f == nil || len(f.sources) < 2 || i < 0 {
		return nil
	}
	return &t.ranks[i]
}

// sessionNumber returns a hash of the name of a session, or -1 for no session. Two sessions may have the same number.
func sessionNumber(name string) int32 {
	if name == "" {
		return -1
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return int32(h.Sum32() >> 1)
}

// routeTicket updates the available workers and passes a request to the dispatcher.
func (p *picker) routeTicket(t *ticket, available []uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	if err := p.setWorkers(available); err != nil {
		return err
	}
	if k := len(p.vacant); k > 0 {
		t.ID, p.vacant = p.vacant[k-1], p.vacant[:k-1]
	} else {
		t.ID = sim.RequestID(len(p.tickets))
		p.tickets = append(p.tickets, nil)
	}
	p.tickets[t.ID] = t
	placed, err := p.router.Route(p.clockTime(), &t.Request, p.placed[:0])
	if err != nil {
		p.freeID(t)
		return err
	}
	p.handOut(placed)
	return nil
}

// setWorkers makes the available workers the candidates of the dispatcher.
func (p *picker) setWorkers(available []uint64) error {
	var known []uint64
	for _, w := range p.router.Workers() {
		known = append(known, p.worker[w])
	}
	if slices.Equal(known, available) {
		return nil
	}
	for _, name := range known {
		if _, found := slices.BinarySearch(available, name); !found {
			if err := p.router.RemoveWorker(p.number[name]); err != nil {
				return err
			}
		}
	}
	for _, name := range available {
		if _, found := slices.BinarySearch(known, name); !found {
			if err := p.router.AddWorker(p.numberOf(name)); err != nil {
				return err
			}
		}
	}
	placed, err := p.router.Drain(p.clockTime(), p.placed[:0])
	p.handOut(placed)
	return err
}

// numberOf returns the id of a worker in the index and the dispatcher.
func (p *picker) numberOf(name uint64) sim.WorkerID {
	if w, ok := p.number[name]; ok {
		return w
	}
	w := p.unusedNumber()
	if int(w) == len(p.worker) {
		p.worker = append(p.worker, name)
	} else {
		delete(p.number, p.worker[w])
		p.worker[w] = name
	}
	p.number[name] = w
	return w
}

// unusedNumber returns an id that is free: its worker is no candidate, is not followed and has no requests. If no id
// is free, unusedNumber returns a new id.
func (p *picker) unusedNumber() sim.WorkerID {
	fresh := sim.WorkerID(len(p.worker))
	if p.router.Queued() > 0 {
		return fresh // queued requests refer to workers and their caches by id
	}
	running := p.router.Loads().Running
	for w, name := range p.worker {
		busy := w < len(running) && running[w] > 0
		if !busy && p.follows[name] == nil && !slices.Contains(p.router.Workers(), sim.WorkerID(w)) {
			return sim.WorkerID(w)
		}
	}
	return fresh
}

func (p *picker) nameOf(w sim.WorkerID) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.worker[w]
}

// handOut passes placements to the waiting requests.
func (p *picker) handOut(placed []router.Placement) {
	for _, x := range placed {
		p.tickets[x.Request.ID].placed <- x
	}
	p.placed = placed[:0]
}

// notifyRouter reports a change of a request to the dispatcher, and passes new placements to the waiting requests.
// p.mu must be held.
func (p *picker) notifyRouter(t *ticket, change func(sim.Time, sim.RequestID, []router.Placement) ([]router.Placement, error)) {
	placed, err := change(p.clockTime(), t.ID, p.placed[:0])
	p.handOut(placed)
	if err != nil && p.options.Warn != nil {
		p.options.Warn(fmt.Sprintf("router: %v", err))
	}
}

// noteFirst records that a request has its first token.
func (p *picker) noteFirst(t *ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !t.first && !t.gone {
		p.notifyRouter(t, p.router.PrefillDone)
	}
	t.first = true
}

// removeTicket removes a queued or placed request.
func (p *picker) removeTicket(t *ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.gone {
		return
	}
	if !p.router.Withdraw(t.ID) {
		p.notifyRouter(t, p.router.Finished)
	}
	p.freeID(t)
}

// freeID frees the id of a finished request. p.mu must be held.
func (p *picker) freeID(t *ticket) {
	t.gone = true
	p.tickets[t.ID] = nil
	p.vacant = append(p.vacant, t.ID)
}

// clockTime returns the time on the dispatcher's clock.
func (p *picker) clockTime() sim.Time { return sim.Time(float64(time.Since(p.began)) / 1e6) }

// close stops following all workers. Queued requests get an error.
func (p *picker) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	all := p.follows
	p.follows = make(map[uint64]*followed)
	p.mu.Unlock()
	close(p.quit)
	for _, f := range all {
		f.stopFollowing()
	}
}

// followed is a worker with subscribed KV events.
type followed struct {
	sources []kvevents.Source
	stops   []func() // end the subscriptions and drop their blocks from the index
}

// followWorker subscribes to the KV event sources of a worker. Without sources, followWorker drops the known cache of
// the worker. The same sources again change nothing.
func (p *picker) followWorker(worker uint64, sources []kvevents.Source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.follows[worker]
	switch {
	case p.closed:
		return errClosed
	case p.index == nil, f != nil && slices.Equal(f.sources, sources):
		return nil
	case f != nil:
		f.stopFollowing()
		delete(p.follows, worker)
	}
	if len(sources) == 0 {
		return nil
	}
	f = &followed{sources: slices.Clone(sources)}
	for _, s := range sources {
		if err := p.subscribeTo(f, worker, s); err != nil {
			f.stopFollowing()
			return fmt.Errorf("worker %x: %w", worker, err)
		}
	}
	p.follows[worker] = f
	return nil
}

func (p *picker) subscribeTo(f *followed, worker uint64, s kvevents.Source) error {
	feed := p.index.Feed(p.numberOf(worker))
	sub, err := kvevents.Subscribe(kvevents.SubscriberOptions{
		Events: s.Events, Replay: s.Replay, Topic: s.Topic, Rank: s.Rank,
		BlockTokens: p.blockTokens, Sink: feed, Warn: p.options.Warn, Dial: p.options.Dial,
		Limits: p.options.Publishers, Cut: func(err error) { p.noteCut(worker, s, err) },
	})
	if err != nil {
		return err
	}
	f.stops = append(f.stops, func() {
		sub.Close()
		feed.Leave()
	})
	return nil
}

// noteCut counts a publisher that was disconnected, and logs a warning. Another goroutine may hold p.mu during the
// call.
func (p *picker) noteCut(worker uint64, s kvevents.Source, err error) {
	var limit *kvevents.LimitError
	if errors.As(err, &limit) && p.options.CutOff != nil {
		p.options.CutOff(limit.Reason)
	}
	if p.options.Warn != nil {
		p.options.Warn(fmt.Sprintf("KV events of worker %x, %s: %v; it is followed no more, and requests find it by load alone", worker, s.Events, err))
	}
}

// stopFollowing stops following a worker and drops its cache from the index.
func (f *followed) stopFollowing() {
	for _, stop := range f.stops {
		stop()
	}
}

// unfollowOthers stops following the workers for which serves returns false.
func (p *picker) unfollowOthers(serves func(worker uint64) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for worker, f := range p.follows {
		if !serves(worker) {
			f.stopFollowing()
			delete(p.follows, worker)
		}
	}
}
