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
	// Router is the configuration of the router. Its blocks are those that
	// workers tell of in their events.
	Router router.LiveOptions
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
	done    sync.WaitGroup
	quit    chan struct{}

	mu      sync.Mutex
	router  *router.Live
	waiting map[string]chan router.LivePlacement // of capacity 1
	placed  []router.LivePlacement
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

// How often held requests are looked at although nothing has happened: where
// prefills decay with time, and where they do not.
const (
	recheckDecaying = 100 * time.Millisecond
	recheckIdle     = time.Minute
)

// NewPicker returns a picker that follows nobody.
func NewPicker(o PickerOptions) (*Picker, error) {
	r, err := router.NewLive(o.Router)
	if err != nil {
		return nil, err
	}
	p := &Picker{
		options: o, index: NewIndex(o.Warn), began: time.Now(), quit: make(chan struct{}), router: r,
		waiting: make(map[string]chan router.LivePlacement),
		number:  make(map[uint64]sim.WorkerID), follows: make(map[uint64]*followed),
	}
	every := recheckIdle
	if r.Recheck() {
		every = recheckDecaying
	}
	p.done.Go(func() { p.recheck(every) })
	return p, nil
}

func (p *Picker) recheck(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.change(p.router.Drain)
		case <-p.quit:
			return
		}
	}
}

// Index is what is known of the workers' caches.
func (p *Picker) Index() *Index { return p.index }

// Loads lists the loads of the workers chosen among last, ascending.
func (p *Picker) Loads() ([]router.LiveLoad, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.router.Loads(p.now())
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
	n, ok := p.number[worker]
	if !ok {
		n = sim.WorkerID(len(p.worker))
		p.number[worker] = n
		p.worker = append(p.worker, worker)
	}
	feed := p.index.Feed(n)
	sub, err := Subscribe(SubscriberOptions{
		Events: s.Events, Replay: s.Replay, Topic: s.Topic, Rank: s.Rank,
		BlockTokens: p.options.Router.BlockTokens, Sink: feed, Warn: p.options.Warn, Connection: p.options.Connection,
	})
	if err != nil {
		return err
	}
	f.feeds = append(f.feeds, feed)
	f.subscribers = append(f.subscribers, sub)
	return nil
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
	ID     string // of the request; not that of another one that is placed or held
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
	blockTokens := p.options.Router.BlockTokens
	local := blockhash.Request(a.Tokens, blockTokens, blockhash.Options{LoRA: a.LoRA})
	q := router.LiveRequest{ID: a.ID, Tokens: len(a.Tokens), Sequence: blockhash.Sequence(local), Overlap: make(map[uint64]int32)}
	answer := make(chan router.LivePlacement, 1)
	if err := p.route(q, local, available, answer); err != nil {
		return Pick{}, err
	}
	select {
	case l := <-answer:
		return p.pick(l), nil
	case <-ctx.Done():
		p.leave(a.ID)
		return Pick{}, ctx.Err()
	case <-p.quit:
		p.leave(a.ID)
		return Pick{}, ErrPickerClosed
	}
}

// route hands a request to the router, after the workers available.
func (p *Picker) route(q router.LiveRequest, local []uint64, available []uint64, answer chan router.LivePlacement) error {
	matches := p.index.Match(local, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrPickerClosed
	}
	for _, m := range matches {
		q.Longest = max(q.Longest, m.Blocks)
		if m.Member.Rank == 0 {
			q.Overlap[p.worker[m.Member.Worker]] = m.Blocks
		}
	}
	if err := p.admit(available); err != nil {
		return err
	}
	if _, again := p.waiting[q.ID]; again {
		return fmt.Errorf("request %s is already held", q.ID)
	}
	p.waiting[q.ID] = answer
	var err error
	if p.placed, err = p.router.Route(p.now(), q, p.placed[:0]); err != nil {
		delete(p.waiting, q.ID)
		return err
	}
	p.hand()
	return nil
}

// admit makes the workers available the candidates.
func (p *Picker) admit(available []uint64) error {
	known := p.router.Workers(nil)
	changed := false
	for i, k := 0, 0; i < len(known) || k < len(available); {
		var err error
		switch {
		case k == len(available) || i < len(known) && known[i] < available[k]:
			err = p.router.RemoveWorker(known[i])
			i++
		case i == len(known) || available[k] < known[i]:
			err = p.router.AddWorker(available[k])
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
	for _, l := range p.placed {
		p.waiting[l.Request] <- l
		delete(p.waiting, l.Request)
	}
	p.placed = p.placed[:0]
}

// change lets the router take in something and hands on what it places.
func (p *Picker) change(f func(sim.Time, []router.LivePlacement) ([]router.LivePlacement, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	p.placed, err = f(p.now(), p.placed[:0])
	p.hand()
	if err != nil && p.options.Warn != nil {
		p.options.Warn(fmt.Sprintf("router: %v", err))
	}
}

// leave takes a request out, wherever it is.
func (p *Picker) leave(id string) {
	p.change(func(now sim.Time, dst []router.LivePlacement) ([]router.LivePlacement, error) {
		delete(p.waiting, id)
		return p.router.Finished(now, id, dst)
	})
}

func (p *Picker) pick(l router.LivePlacement) Pick {
	first := sync.OnceFunc(func() {
		p.change(func(now sim.Time, dst []router.LivePlacement) ([]router.LivePlacement, error) {
			return p.router.PrefillDone(now, l.Request, dst)
		})
	})
	left := sync.OnceFunc(func() { p.leave(l.Request) })
	var mu sync.Mutex
	gone := false
	return Pick{
		Worker: l.Worker, Overlap: int(l.Overlap), Cost: l.Cost,
		First: func() {
			mu.Lock()
			defer mu.Unlock()
			if !gone {
				first()
			}
		},
		Done: func() {
			mu.Lock()
			defer mu.Unlock()
			gone = true
			left()
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
	p.done.Wait()
}

// BlockTokens is the number of tokens of a block.
func (p *Picker) BlockTokens() int { return p.options.Router.BlockTokens }
