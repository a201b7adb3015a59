package route

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/scheduler"
)

// Served is a model that is or was served.
type Served struct {
	Name          string
	ContextLength int       // tokens; 0: unknown
	Since         time.Time // when the model was first seen
	Instances     int       // number of workers that serve the model now; of prefill and decode workers, the smaller number
	Target        engine.Target
}

// Catalog lists the models that workers serve, according to their model cards.
type Catalog struct {
	rt      *drt.Runtime
	cards   *drt.Cards
	options Options
	quit    context.CancelFunc
	done    sync.WaitGroup
	workers bell.Bell // rings when the workers of a pool have changed

	mu      sync.Mutex
	pools   map[drt.Name]*Pool
	models  map[string]*Served
	changed chan struct{} // closed at the next change
	seen    func(model string)
}

// Follow starts to follow the model cards of a cluster. Follow calls seen, if seen is not nil, once for each model
// name. The catalog is open until Close.
func Follow(ctx context.Context, rt *drt.Runtime, o Options, seen func(model string)) (*Catalog, error) {
	cards, err := rt.Cards(ctx)
	if err != nil {
		return nil, err
	}
	ctx, quit := context.WithCancel(context.WithoutCancel(ctx))
	c := &Catalog{
		rt: rt, cards: cards, options: o, quit: quit, seen: seen,
		workers: bell.New(),
		pools:   make(map[drt.Name]*Pool), models: make(map[string]*Served), changed: make(chan struct{}),
	}
	c.done.Go(func() { c.followCards(ctx) })
	return c, nil
}

// Close stops following the cards. Requests in flight continue.
func (c *Catalog) Close() {
	c.quit()
	c.done.Wait()
	for _, p := range c.pools {
		p.Close()
	}
}

func (c *Catalog) followCards(ctx context.Context) {
	for {
		cards, changed := c.cards.List()
		if err := c.noteCards(ctx, cards); err != nil && ctx.Err() == nil && c.options.Warn != nil {
			c.options.Warn("model cards: " + err.Error())
		}
		select {
		case <-changed:
		case <-c.workers:
		case <-ctx.Done():
			return
		}
	}
}

// kind identifies a set of workers of a model by endpoint and mode.
type kind struct {
	name drt.Name
	mode engine.Mode
}

// noteCards updates the models from the current cards. A worker shows its card before it accepts calls, so noteCards
// counts only workers that accept calls.
func (c *Catalog) noteCards(ctx context.Context, cards []drt.Card) error {
	var errs error
	kinds := make(map[string]map[kind]int) // number of cards by model and kind
	lengths := make(map[string]int)
	for _, one := range cards {
		if only := c.options.Namespace; only != "" && one.Instance.Namespace != only {
			continue
		}
		card, err := readCard(one.JSON)
		if err != nil || card.Name == "" {
			continue // card of another program
		}
		if kinds[card.Name] == nil {
			kinds[card.Name] = make(map[kind]int)
		}
		kinds[card.Name][kind{one.Instance, card.WorkerType}]++
		if n := lengths[card.Name]; n == 0 || card.ContextLength > 0 && card.ContextLength < n {
			lengths[card.Name] = card.ContextLength
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.models {
		m.Instances = 0
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		target, n, err := c.findTarget(ctx, kinds[name])
		errs = errors.Join(errs, err)
		if target == nil {
			continue
		}
		m := c.models[name]
		if m == nil && n == 0 {
			continue
		}
		if m == nil {
			m = &Served{Name: name, Since: time.Now()}
			c.models[name] = m
			if c.seen != nil {
				c.seen(name)
			}
		}
		m.ContextLength, m.Instances, m.Target = lengths[name], n, target
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return errs
}

// findTarget returns the target of a model and its number of workers. The target is a pool of aggregated workers or a
// Pair, and nil if one half of a pair is missing. Of several endpoints, the one with the most workers is selected,
// then the first by name.
func (c *Catalog) findTarget(ctx context.Context, cards map[kind]int) (engine.Target, int, error) {
	best := make(map[engine.Mode]drt.Name)
	for _, k := range slices.SortedFunc(maps.Keys(cards), func(a, b kind) int {
		return cmp.Or(cmp.Compare(cards[a], cards[b]), cmp.Compare(b.name.String(), a.name.String()))
	}) {
		best[k.mode] = k.name
	}
	if name, ok := best[engine.Aggregated]; ok {
		p, err := c.openPool(ctx, name, scheduler.Aggregated)
		if err != nil {
			return nil, 0, err
		}
		return p, len(p.Workers()), nil
	}
	first, prefills := best[engine.Prefill]
	second, decodes := best[engine.Decode]
	if !prefills || !decodes {
		return nil, 0, nil
	}
	prefill, err1 := c.openPool(ctx, first, scheduler.Prefill)
	decode, err2 := c.openPool(ctx, second, scheduler.Decode)
	if err := errors.Join(err1, err2); err != nil {
		return nil, 0, err
	}
	return &Pair{Prefill: prefill, Decode: decode}, min(len(prefill.Workers()), len(decode.Workers())), nil
}

// openPool returns the pool of an endpoint, and opens it at the first call. c.mu must be held.
func (c *Catalog) openPool(ctx context.Context, name drt.Name, role scheduler.Role) (*Pool, error) {
	if p := c.pools[name]; p != nil {
		return p, nil
	}
	o := c.options
	o.Role = role
	o.noted = c.workers.Ring
	p, err := Open(ctx, c.rt, c.cards, name, o)
	if err == nil {
		c.pools[name] = p
	}
	return p, err
}

// Models returns the models that are served now, sorted by name. Models also returns a channel that is closed at the
// next change.
func (c *Catalog) Models() ([]Served, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Served
	for _, name := range slices.Sorted(maps.Keys(c.models)) {
		if m := c.models[name]; m.Instances > 0 {
			all = append(all, *m)
		}
	}
	return all, c.changed
}

// Find returns a model that is or was served. Requests for a model that is no longer served fail, since it has no
// instances.
func (c *Catalog) Find(name string) (Served, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.models[name]
	if m == nil {
		return Served{}, false
	}
	return *m, true
}
