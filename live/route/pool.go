// Package routing finds out who serves which model and says where requests go.
//
// A Pool is the workers of one endpoint and how one of them is chosen; it is an
// engine.Target. A Pair is a pool for prefill and one for decode. A Catalog
// follows the model cards of a cluster and makes pools of them.
//
// Read pool.go, generate.go, pair.go, then catalog.go.
package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/kvroute"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
)

// Mode is how a worker is chosen.
type Mode string

// The modes.
const (
	RoundRobin Mode = "round_robin"
	Random     Mode = "random"
	// KV chooses by the KV events of the workers, as package router does. It is
	// round robin while no worker has told the size of its blocks.
	KV Mode = "kv"
)

// Options say how workers are chosen and called. The zero value of each field
// means its default.
type Options struct {
	Mode       Mode                             // default RoundRobin
	Router     router.Config                    // read by KV only; router.DefaultConfig is a good one
	Seed       uint64                           // of the router's draws
	Stage      scheduler.Role                   // what the workers do for a request; default all of it
	Migrations int                              // how often a request may go on elsewhere
	Metrics    func(drt.Name) *telemetry.Client // of calls to an endpoint; nil: none
	Tracing    *telemetry.Tracing               // nil: spans that nobody sees
	Warn       func(string)                     // nil: nobody is warned

	noted func() // called when workers have come or gone; may be nil
}

// Pool is the workers of an endpoint. Any goroutine may use it.
type Pool struct {
	name    drt.Name
	client  *drt.Client
	cards   *drt.Cards
	options Options
	kv      *kvroute.Route // nil without KV
	quit    context.CancelFunc
	done    sync.WaitGroup

	mu      sync.Mutex
	known   map[uint64]engine.ModelCard // of workers that serve now
	changed chan struct{}               // closed when known changes
}

// Open begins to follow the workers of an endpoint. The pool lives until Close.
func Open(ctx context.Context, rt *drt.Runtime, cards *drt.Cards, name drt.Name, o Options) (*Pool, error) {
	endpoint, err := rt.Endpoint(name.Namespace, name.Component, name.Endpoint)
	if err != nil {
		return nil, err
	}
	switch o.Mode {
	case "":
		o.Mode = RoundRobin
	case RoundRobin, Random, KV:
	default:
		return nil, fmt.Errorf("router mode is %q, want %s, %s or %s", o.Mode, RoundRobin, Random, KV)
	}
	if o.Tracing == nil {
		o.Tracing = telemetry.New(nil, "")
	}
	clientOptions := drt.ClientOptions{Migrations: o.Migrations}
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
	if o.Mode == KV {
		p.kv, err = kvroute.New(ctx, rt, name, kvroute.Options{Config: o.Router, Role: o.Stage, Seed: o.Seed, Warn: o.Warn})
		if err != nil {
			quit()
			return nil, fmt.Errorf("KV router: %w", err)
		}
	}
	p.done.Go(func() { p.follow(follow) })
	return p, nil
}

// Close stops following. Requests under way go on.
func (p *Pool) Close() {
	p.quit()
	p.done.Wait()
	if p.kv != nil {
		p.kv.Close()
	}
}

// Name is the endpoint's.
func (p *Pool) Name() drt.Name { return p.name }

// Client is what calls the workers.
func (p *Pool) Client() *drt.Client { return p.client }

// follow keeps track of workers until ctx ends.
func (p *Pool) follow(ctx context.Context) {
	for {
		// First the channels, then the lists: what changes in between is looked at
		// again.
		instancesChanged := p.client.Changed()
		cards, cardsChanged := p.cards.List()
		p.note(p.client.Instances(), cards)
		select {
		case <-instancesChanged:
		case <-cardsChanged:
		case <-ctx.Done():
			return
		}
	}
}

// note takes in who serves now: those with an instance and a card.
func (p *Pool) note(instances []drt.Instance, cards []drt.Card) {
	known := make(map[uint64]engine.ModelCard)
	for _, c := range cards {
		serves := slices.ContainsFunc(instances, func(i drt.Instance) bool { return i.ID == c.ID })
		if c.Instance != p.name || !serves {
			continue
		}
		card, err := readCard(c.JSON)
		if err != nil {
			p.warn("model card of %v, worker %x: %v", p.name, c.ID, err)
			continue
		}
		known[c.ID] = card
	}
	p.mu.Lock()
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
	if err := json.Unmarshal(text, &card); err != nil {
		return card, err
	}
	return card, nil
}

// Picker is the KV router's; nil without one, and while no worker has told of its
// model.
func (p *Pool) Picker() *kvevents.Picker {
	if p.kv == nil {
		return nil
	}
	return p.kv.Picker()
}

// Workers lists the workers that serve and have told of their model, ascending.
func (p *Pool) Workers() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.known))
}

// Card is what a worker has told of its model.
func (p *Pool) Card(worker uint64) (engine.ModelCard, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.known[worker]
	return c, ok
}

// Await waits until n workers serve, or ctx ends.
func (p *Pool) Await(ctx context.Context, n int) error {
	if p.kv != nil {
		if err := p.kv.Known(ctx, n); err != nil {
			return fault.New(fault.CannotConnect, "%w", err)
		}
	}
	for {
		p.mu.Lock()
		have, changed := len(p.known), p.changed
		p.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fault.New(fault.CannotConnect, "%v: %d workers, want %d: %w", p.name, have, n, context.Cause(ctx))
		}
	}
}

func (p *Pool) warn(format string, args ...any) {
	if p.options.Warn != nil {
		p.options.Warn(fmt.Sprintf(format, args...))
	}
}
