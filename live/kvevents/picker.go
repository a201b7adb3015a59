package kvevents

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

// SourcesKey is the key of an engine's runtime data under which it lists the
// Sources of its KV events.
const SourcesKey = "kv_events"

// Source is where a rank of a worker publishes its KV events. Workers tell it
// when they register.
type Source struct {
	Events string `json:"events"`           // the PUB socket, tcp://host:port
	Replay string `json:"replay,omitempty"` // the ROUTER socket, if there is one
	Topic  string `json:"topic,omitempty"`
	Rank   int32  `json:"dp_rank"`
}

// PickerOptions says how workers are chosen.
type PickerOptions struct {
	// Policy chooses.
	Policy router.Policy
	// BlockTokens is how many tokens the blocks have that workers tell of in their
	// events, > 0.
	BlockTokens int
	// Warn, if not nil, is told of events that were lost or do not fit.
	Warn func(string)
	// Connection says how connections to publishers are kept.
	Connection zmtp.SubOptions
}

// Picker chooses, for each request, the worker where it is cheapest: by the KV
// events of all workers and the requests it has sent where. It holds requests
// back while every worker is busy. Any goroutine may call it.
type Picker struct {
	options PickerOptions
	index   *Index
	began   time.Time
	quit    chan struct{}

	mu      sync.Mutex
	router  *router.Dispatcher
	tickets []*ticket // by request id; nil where nobody has it
	vacant  []sim.RequestID
	placed  []router.Placement
	number  map[uint64]sim.WorkerID // in the index, by worker
	worker  []uint64                // by number
	follows map[uint64]*followed
	closed  bool
}

// followed is a worker whose events are followed.
type followed struct {
	sources     []Source
	subscribers []*Subscriber
	feeds       []*Feed
}

// ticket is a request that is held or placed.
type ticket struct {
	sim.Request
	placed   chan router.Placement // of capacity 1
	sequence []uint64
	cached   []router.Match
}

// NewPicker returns a picker that follows nobody.
func NewPicker(o PickerOptions) (*Picker, error) {
	if o.BlockTokens <= 0 {
		return nil, fmt.Errorf("blocks of %d tokens, want > 0", o.BlockTokens)
	}
	p := &Picker{
		options: o, index: NewIndex(o.Warn), began: time.Now(), quit: make(chan struct{}),
		number: make(map[uint64]sim.WorkerID), follows: make(map[uint64]*followed),
	}
	p.router = router.New(router.Options{
		Policy: o.Policy, Hashes: p, BlockTokens: o.BlockTokens,
		Names: func(w sim.WorkerID) uint64 { return p.worker[w] },
	})
	return p, nil
}

// Sequence returns the sequence hashes of the prompt of a request. The router
// asks, under p.mu.
func (p *Picker) Sequence(id sim.RequestID) []uint64 { return p.tickets[id].sequence }

// Cached returns who caches how many blocks of the prompt of a request. The
// router asks, under p.mu.
func (p *Picker) Cached(id sim.RequestID) []router.Match { return p.tickets[id].cached }

// Index is what is known of the workers' caches.
func (p *Picker) Index() *Index { return p.index }

// Load is what a worker has to do.
type Load struct {
	Worker   uint64
	Requests int   // placed and not finished
	Blocks   int64 // of their prompts
	Tokens   int64 // of their prompts, still to compute
}

// Loads returns the loads of the workers chosen among last, ascending.
func (p *Picker) Loads() []Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Load
	c := p.router.Loads()
	for _, w := range c.Workers {
		all = append(all, Load{p.worker[w], int(c.Running[w]), c.Blocks[w], c.Tokens[w]})
	}
	return all
}

// now is the time on the router's clock.
func (p *Picker) now() sim.Time { return sim.Time(float64(time.Since(p.began)) / 1e6) }

// ErrPickerClosed says that a picker was closed.
var ErrPickerClosed = errors.New("kvevents: picker closed")

// Follow makes sources those of a worker's events; none forgets what was known
// of the worker's cache. Following the same ones again changes nothing.
func (p *Picker) Follow(worker uint64, sources []Source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrPickerClosed
	}
	f := p.follows[worker]
	if f != nil && sameSources(f.sources, sources) {
		return nil
	}
	if f != nil {
		f.stop()
		delete(p.follows, worker)
	}
	if len(sources) == 0 {
		return nil
	}
	f = &followed{sources: append([]Source(nil), sources...)}
	for _, s := range sources {
		if err := p.subscribe(f, worker, s); err != nil {
			f.stop()
			return fmt.Errorf("worker %x: %w", worker, err)
		}
	}
	p.follows[worker] = f
	return nil
}

func sameSources(a, b []Source) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (p *Picker) subscribe(f *followed, worker uint64, s Source) error {
	feed := p.index.Feed(p.numberOf(worker))
	sub, err := Subscribe(SubscriberOptions{
		Events: s.Events, Replay: s.Replay, Topic: s.Topic, Rank: s.Rank,
		BlockTokens: p.options.BlockTokens, Sink: feed, Warn: p.options.Warn, Connection: p.options.Connection,
	})
	if err != nil {
		return err
	}
	f.feeds = append(f.feeds, feed)
	f.subscribers = append(f.subscribers, sub)
	return nil
}

// numberOf returns the id by which index and router know a worker.
func (p *Picker) numberOf(worker uint64) sim.WorkerID {
	n, ok := p.number[worker]
	if !ok {
		n = sim.WorkerID(len(p.worker))
		p.number[worker] = n
		p.worker = append(p.worker, worker)
	}
	return n
}

// stop stops following a worker and forgets its cache.
func (f *followed) stop() {
	for i, s := range f.subscribers {
		s.Close()
		f.feeds[i].Leave()
	}
}

// Following is what has been received of a worker's events, by source.
func (p *Picker) Following(worker uint64) []SubscriberStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []SubscriberStats
	if f := p.follows[worker]; f != nil {
		for _, s := range f.subscribers {
			all = append(all, s.Stats())
		}
	}
	return all
}

// Ask is a request to be placed.
type Ask struct {
	Tokens []uint32
	LoRA   string // adapter name; "" is none
}

// Pick is where a request goes. First is to be called when its first token is
// there, Done when it has left its worker, however that was; both may be called
// more than once, and Done must be.
type Pick struct {
	Worker  uint64
	Overlap int     // leading blocks of the prompt that are cached there
	Cost    float64 // in blocks
	First   func()
	Done    func()
}

// Pick chooses among the workers available, which are ascending. It may wait for
// one that is not busy, as long as ctx lasts.
func (p *Picker) Pick(ctx context.Context, a Ask, available []uint64) (Pick, error) {
	local := blockhash.Request(a.Tokens, p.options.BlockTokens, blockhash.Options{LoRA: a.LoRA})
	q := &ticket{placed: make(chan router.Placement, 1), sequence: blockhash.Sequence(local), cached: p.index.Match(local, nil)}
	q.InputTokens, q.Prompt.Blocks = len(a.Tokens), int32(len(local))
	if err := p.route(q, available); err != nil {
		return Pick{}, err
	}
	select {
	case placed := <-q.placed:
		return p.pick(q, &placed), nil
	case <-ctx.Done():
		p.giveUp(q)
		return Pick{}, ctx.Err()
	case <-p.quit:
		p.giveUp(q)
		return Pick{}, ErrPickerClosed
	}
}

// route hands a request to the router, after the workers available.
func (p *Picker) route(q *ticket, available []uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrPickerClosed
	}
	if err := p.admit(available); err != nil {
		return err
	}
	if k := len(p.vacant); k > 0 {
		q.ID, p.vacant = p.vacant[k-1], p.vacant[:k-1]
	} else {
		q.ID = sim.RequestID(len(p.tickets))
		p.tickets = append(p.tickets, nil)
	}
	p.tickets[q.ID] = q
	var err error
	if p.placed, err = p.router.Route(p.now(), &q.Request, p.placed[:0]); err != nil {
		p.forget(q)
		return err
	}
	p.hand()
	return nil
}

// forget frees the id of a request that has left.
func (p *Picker) forget(q *ticket) {
	p.tickets[q.ID] = nil
	p.vacant = append(p.vacant, q.ID)
}

// admit makes the workers available the candidates.
func (p *Picker) admit(available []uint64) error {
	var known []uint64
	for _, w := range p.router.Workers() {
		known = append(known, p.worker[w])
	}
	changed := false
	for i, k := 0, 0; i < len(known) || k < len(available); {
		var err error
		switch {
		case k == len(available) || i < len(known) && known[i] < available[k]:
			err = p.router.RemoveWorker(p.number[known[i]])
			i++
		case i == len(known) || available[k] < known[i]:
			err = p.router.AddWorker(p.numberOf(available[k]))
			k++
		default:
			i, k = i+1, k+1
			continue
		}
		if changed = true; err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	var err error
	p.placed, err = p.router.Drain(p.now(), p.placed[:0])
	p.hand()
	return err
}

// hand tells those who wait where their requests go.
func (p *Picker) hand() {
	for _, placed := range p.placed {
		p.tickets[placed.Request.ID].placed <- placed
	}
	p.placed = p.placed[:0]
}

// change tells the router something of a request and hands on what it places.
func (p *Picker) change(q *ticket, f func(sim.Time, sim.RequestID, []router.Placement) ([]router.Placement, error)) {
	var err error
	p.placed, err = f(p.now(), q.ID, p.placed[:0])
	p.hand()
	if err != nil && p.options.Warn != nil {
		p.options.Warn(fmt.Sprintf("router: %v", err))
	}
}

// giveUp is leave for a request that nobody waits for any more.
func (p *Picker) giveUp(q *ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(q)
}

// leave takes a request out, wherever it is. p.mu is held.
func (p *Picker) leave(q *ticket) {
	if !p.router.Withdraw(q.ID) {
		p.change(q, p.router.Finished)
	}
	p.forget(q)
}

func (p *Picker) pick(q *ticket, placed *router.Placement) Pick {
	first, gone := false, false
	return Pick{
		Worker: p.worker[placed.Worker], Overlap: int(placed.Overlap), Cost: placed.Cost,
		First: func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !first && !gone {
				p.change(q, p.router.PrefillDone)
			}
			first = true
		},
		Done: func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !gone {
				p.leave(q)
			}
			gone = true
		},
	}
}

// Close stops following all workers. Requests that are held get an error.
func (p *Picker) Close() {
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
		f.stop()
	}
}

// BlockTokens is the number of tokens of a block.
func (p *Picker) BlockTokens() int { return p.options.BlockTokens }
