// Package kvroute routes the requests of a client to the worker where they are
// cheapest: the KV router for workers of the distributed runtime. It finds the
// sockets with a worker's KV events in its model card.
//
// All of it is in route.go; the choice itself is made in kvevents.Picker.
package kvroute

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

// Options say how to route.
type Options struct {
	// Config is the router's configuration.
	Config router.Config
	// Role is the part of the work that the workers do.
	Role scheduler.Role
	// Seed is for the draws at a temperature above 0; 0 is 42.
	Seed uint64
	// Warn, if not nil, is told of events that were lost or do not fit.
	Warn func(string)
}

// Route is a drt.Picker. Without a worker whose card tells the size of its
// blocks, it takes the workers in turn.
type Route struct {
	options Options
	name    drt.Name
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu      sync.Mutex
	picker  *kvevents.Picker // nil before the first card
	known   map[uint64]bool  // workers with a card
	turn    int
	changed chan struct{} // closed when known changes
}

var _ drt.Picker = (*Route)(nil)

// card is what a router needs to know of an engine.ModelCard.
type card struct {
	BlockTokens int `json:"kv_cache_block_size"`
	Runtime     struct {
		MaxBatchedTokens int `json:"max_num_batched_tokens"`
		Data             struct {
			Sources []kvevents.Source `json:"kv_events"` // kvevents.SourcesKey
		} `json:"runtime_data"`
	} `json:"runtime_config"`
}

// New follows the workers of an endpoint until Close, or the end of rt.
func New(ctx context.Context, rt *drt.Runtime, name drt.Name, o Options) (*Route, error) {
	cards, err := rt.Cards(ctx)
	if err != nil {
		return nil, err
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	ending, stop := context.WithCancel(context.Background())
	r := &Route{options: o, name: name, stop: stop, known: make(map[uint64]bool), changed: make(chan struct{})}
	list, changed := cards.List()
	if err := r.follow(list); err != nil {
		stop()
		r.close()
		return nil, err
	}
	r.done.Go(func() {
		for {
			select {
			case <-changed:
			case <-ending.Done():
				return
			case <-rt.Done():
				return
			}
			list, changed = cards.List()
			if err := r.follow(list); err != nil {
				o.Warn(err.Error())
			}
		}
	})
	return r, nil
}

// follow takes in all cards that there are.
func (r *Route) follow(list []drt.Card) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := make(map[uint64]bool)
	var first error
	for _, c := range list {
		if c.Instance != r.name {
			continue
		}
		there[c.ID] = true
		if err := r.take(c); err != nil && first == nil {
			first = fmt.Errorf("model card of %v, instance %x: %w", r.name, c.ID, err)
		}
	}
	for id := range r.known {
		if !there[id] && r.picker != nil {
			_ = r.picker.Follow(id, nil) // fails only when closed
		}
	}
	r.known = there
	close(r.changed)
	r.changed = make(chan struct{})
	return first
}

// take takes in one card.
func (r *Route) take(c drt.Card) error {
	var got card
	if err := json.Unmarshal(c.JSON, &got); err != nil {
		return err
	}
	block := got.BlockTokens
	if block <= 0 {
		return nil // it does not say
	}
	if r.picker == nil {
		kv, err := policy.New(policy.KV, policy.Options{
			Config: r.options.Config, Role: r.options.Role, Seed: r.options.Seed,
			BlockTokens: block, MaxBatchedTokens: got.Runtime.MaxBatchedTokens,
		})
		if err != nil {
			return err
		}
		p, err := kvevents.NewPicker(kvevents.PickerOptions{Warn: r.options.Warn, Policy: kv, BlockTokens: block})
		if err != nil {
			return err
		}
		r.picker = p
	}
	if want := r.picker.BlockTokens(); block != want {
		return fmt.Errorf("blocks of %d tokens, want %d as of the others", block, want)
	}
	return r.picker.Follow(c.ID, got.Runtime.Data.Sources)
}

// Known waits until the cards of so many workers are there.
func (r *Route) Known(ctx context.Context, workers int) error {
	for {
		r.mu.Lock()
		n, changed := len(r.known), r.changed
		r.mu.Unlock()
		if n >= workers {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d model cards of %v, want %d: %w", n, r.name, workers, ctx.Err())
		}
	}
}

// Picker is what chooses; nil as long as no card is known.
func (r *Route) Picker() *kvevents.Picker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.picker
}

// Pick chooses the instance where the request costs least. It waits while all of
// them are busy, as long as neither ctx nor rc has ended.
func (r *Route) Pick(ctx context.Context, rc cancel.Context, rq *drt.Request, available []uint64) (drt.Choice, error) {
	var in engine.Request
	if err := json.Unmarshal(rq.Payload, &in); err != nil {
		return drt.Choice{}, fault.New(fault.InvalidArgument, "request: %w", err)
	}
	return r.PickFor(ctx, rc, in.TokenIDs, available)
}

// PickFor is Pick for who knows the tokens of the prompt.
func (r *Route) PickFor(ctx context.Context, rc cancel.Context, tokens []uint32, available []uint64) (drt.Choice, error) {
	p := r.Picker()
	if p == nil || len(tokens) == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turn++
		return drt.Choice{Instance: available[(r.turn-1)%len(available)]}, nil
	}
	waiting, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-rc.Stopped():
			end()
		case <-waiting.Done():
		}
	}()
	got, err := p.Pick(waiting, kvevents.Ask{Tokens: tokens}, available)
	switch {
	case err == nil:
		return drt.Choice{Instance: got.Worker, First: got.First, Done: got.Done}, nil
	case rc.IsStopped():
		return drt.Choice{}, fault.New(fault.Cancelled, "cancelled while every worker was busy")
	case ctx.Err() != nil:
		return drt.Choice{}, fault.From(ctx.Err())
	}
	return drt.Choice{}, fault.New(fault.Unknown, "router: %w", err)
}

// Close stops following.
func (r *Route) Close() {
	r.stop()
	r.done.Wait()
	r.close()
}

func (r *Route) close() {
	if p := r.Picker(); p != nil {
		p.Close()
	}
}
