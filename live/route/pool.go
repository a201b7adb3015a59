// Package route finds the workers of each model and sends requests to them.
//
// A Pool is the workers of one endpoint. A Pool chooses one worker for each request, and implements engine.Target.
// The picker of a Pool uses a router.Dispatcher in real time. For policies that read caches, the picker follows the
// KV events of the workers. The model cards contain the sockets of the events. A Pair is a pool of prefill workers
// and a pool of decode workers. A Catalog follows the model cards of a cluster and opens pools for them.
//
// Read pool.go, generate.go, picker.go, then catalog.go.
package route

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

// Options set how workers are chosen and called. The zero value of each field means its default.
type Options struct {
	// Policy chooses the worker. A policy that reads caches is replaced by round robin until a card reports the block
	// size, and for requests without tokens.
	Policy     policy.Name
	Router     router.Config                    // used by policies that read caches; see router.DefaultConfig
	Seed       uint64                           // seed of the policy's random numbers
	Role       scheduler.Role                   // role of the workers for a request; default: aggregated
	Namespace  string                           // namespace of the models of a Catalog; "": any
	Migrations int                              // maximum number of times that a request may continue at another worker
	Metrics    func(drt.Name) *telemetry.Client // metrics of calls to an endpoint; nil: none
	Tracing    *telemetry.Tracing               // nil: spans are not exported
	Warn       func(string)                     // nil: no warnings
	Publishers kvevents.Limits                  // limits for what a worker may publish about its cache
	CutOff     func(reason string)              // counts publishers that exceeded the limits; nil: not counted
	Dial       zmtp.Dial                        // connects to publishers; nil: any address is allowed

	noted func() // called when workers have joined or left; may be nil
}

// Pool is the workers of an endpoint. Pool is safe for concurrent use.
type Pool struct {
	name    drt.Name
	client  *drt.Client
	cards   *drt.Cards
	options Options
	turns   *picker // picker of the policy, or of round robin if the policy reads caches
	quit    context.CancelFunc
	done    sync.WaitGroup

	mu      sync.Mutex
	caches  *picker                     // picker of a policy that reads caches; nil until a card reports the block size
	known   map[uint64]engine.ModelCard // cards of the workers that serve now
	changed chan struct{}               // closed when known changes
}

// Open starts to follow the workers of an endpoint. The pool is open until Close.
func Open(ctx context.Context, rt *drt.Runtime, cards *drt.Cards, name drt.Name, o Options) (*Pool, error) {
	endpoint, err := rt.Endpoint(name.Namespace, name.Component, name.Endpoint)
	if err != nil {
		return nil, err
	}
	o.Policy = o.Policy.Info().Name
	if o.Tracing == nil {
		o.Tracing = telemetry.New(nil, "")
	}
	clientOptions := drt.ClientOptions{Migrations: o.Migrations, Unbegun: 2} // few migrations, since the request itself may be why workers hang
	if o.Metrics != nil {
		clientOptions.Metrics = o.Metrics(name)
	}
	client, err := endpoint.Client(ctx, clientOptions)
	if err != nil {
		return nil, err
	}
	follow, quit := context.WithCancel(context.Background())
	p := &Pool{
		name: name, client: client, cards: cards, options: o, quit: quit,
		known: make(map[uint64]engine.ModelCard), changed: make(chan struct{}),
	}
	if p.turns, err = newTurns(&p.options); err != nil {
		quit()
		return nil, err
	}
	p.done.Go(func() { p.followWorkers(follow) })
	return p, nil
}

// newTurns returns the picker of Pool.turns.
func newTurns(o *Options) (*picker, error) {
	if !o.Policy.Info().Caches {
		return newPicker(o.Policy, o, 0, 0)
	}
	if _, err := newPicker(o.Policy, o, 1, 0); err != nil { // reports wrong settings before a worker joins
		return nil, err
	}
	return newPicker(policy.RoundRobin, o, 0, 0)
}

// Close stops following the workers. Requests in flight continue.
func (p *Pool) Close() {
	p.quit()
	p.done.Wait()
	p.turns.close()
	if p.caches != nil {
		p.caches.close()
	}
}

// followWorkers updates the known workers until ctx ends.
func (p *Pool) followWorkers(ctx context.Context) {
	for {
		// Get the channels before the lists, so that the next round reads a change between the two.
		instancesChanged := p.client.Changed()
		cards, cardsChanged := p.cards.List()
		p.noteWorkers(p.client.Instances(), cards)
		select {
		case <-instancesChanged:
		case <-cardsChanged:
		case <-ctx.Done():
			return
		}
	}
}

// noteWorkers updates the workers that serve now: workers with an instance and a card.
func (p *Pool) noteWorkers(instances []drt.Instance, cards []drt.Card) {
	known := make(map[uint64]engine.ModelCard)
	for _, c := range cards {
		serves := slices.ContainsFunc(instances, func(i drt.Instance) bool { return i.ID == c.ID })
		if c.Instance != p.name || !serves {
			continue
		}
		card, err := readCard(c.JSON)
		if err != nil {
			p.warnf("model card of %v, worker %x: %v", p.name, c.ID, err)
			continue
		}
		known[c.ID] = card
		if err := p.followCaches(c, &card); err != nil {
			p.warnf("model card of %v, worker %x: %v", p.name, c.ID, err)
		}
	}
	p.mu.Lock()
	if p.caches != nil {
		p.caches.unfollowOthers(func(worker uint64) bool { _, serves := known[worker]; return serves })
	}
	p.known = known
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if p.options.noted != nil {
		p.options.noted()
	}
}

func readCard(text json.RawMessage) (engine.ModelCard, error) {
	var card engine.ModelCard
	err := json.Unmarshal(text, &card)
	return card, err
}

// followCaches subscribes to the KV events of a worker, if the policy reads caches.
func (p *Pool) followCaches(c drt.Card, card *engine.ModelCard) error {
	block := card.KVCacheBlockSize
	if !p.options.Policy.Info().Caches || block <= 0 {
		return nil // the card has no block size
	}
	var told struct {
		Runtime struct {
			Data struct {
				Sources []kvevents.Source `json:"kv_events"` // the key is kvevents.SourcesKey
			} `json:"runtime_data"`
		} `json:"runtime_config"`
	}
	if err := json.Unmarshal(c.JSON, &told); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.caches == nil {
		made, err := newPicker(p.options.Policy, &p.options, block, card.RuntimeConfig.MaxBatchedTokens)
		if err != nil {
			return err
		}
		p.caches = made
	}
	if want := p.caches.blockTokens; block != want {
		return fmt.Errorf("blocks of %d tokens, must be %d as for the other workers", block, want)
	}
	return p.caches.followWorker(c.ID, told.Runtime.Data.Sources)
}

// pickerFor returns the picker that chooses a worker for a prompt.
func (p *Pool) pickerFor(tokens []uint32) *picker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.caches == nil || len(tokens) == 0 {
		return p.turns
	}
	return p.caches
}

// Workers returns the workers that serve and have a model card, in ascending order.
func (p *Pool) Workers() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.known))
}

// Card returns the model card of a worker.
func (p *Pool) Card(worker uint64) (engine.ModelCard, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.known[worker]
	return c, ok
}

// cardWait is the maximum time between the start of a worker and its model card. A worker writes the card first.
const cardWait = 2 * time.Second

// Await waits until n workers serve, or ctx ends. Await returns an error if workers serve without a model card.
func (p *Pool) Await(ctx context.Context, n int) error {
	overdue := time.NewTicker(cardWait)
	defer overdue.Stop()
	lacking := 0 // consecutive checks with a missing card
	for {
		p.mu.Lock()
		have, changed := len(p.known), p.changed
		p.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-overdue.C:
			serving := len(p.client.Instances())
			if lacking++; serving < n {
				lacking = 0
			}
			if lacking == 2 {
				return fault.New(fault.CannotConnect, "%v: %d workers serve there, %d of them with a model card, must be %d: "+
					"the card of a worker names the model that it serves (of the published package: register_model)", p.name, serving, have, n)
			}
		case <-ctx.Done():
			return fault.New(fault.CannotConnect, "%v: %d workers, must be %d: %w", p.name, have, n, context.Cause(ctx))
		}
	}
}

func (p *Pool) warnf(format string, args ...any) {
	if p.options.Warn != nil {
		p.options.Warn(fmt.Sprintf(format, args...))
	}
}
