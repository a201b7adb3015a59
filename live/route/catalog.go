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

// Served is a model that is served, or was.
type Served struct {
	Name          string
	ContextLength int       // tokens; 0: not told
	Since         time.Time // when it was first seen
	Instances     int       // that serve it now; of pairs, of the kind that is fewer
	Target        engine.Target
}

// Catalog is the models that workers serve, by their cards.
type Catalog struct {
	rt      *drt.Runtime
	cards   *drt.Cards
	options Options
	quit    context.CancelFunc
	done    sync.WaitGroup
	workers bell.Bell // rings when those of a pool have changed

	mu      sync.Mutex
	pools   map[drt.Name]*Pool
	models  map[string]*Served
	changed chan struct{} // closed at the next change
	seen    func(model string)
}

// Follow begins to follow the cards of a cluster. seen, if not nil, is called with
// the name of each model once. The catalog lives until Close.
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

// Close stops following. Requests in flight continue.
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

// kind is a set of workers of a model: those of a mode at one endpoint.
type kind struct {
	name drt.Name
	mode engine.Mode
}

// noteCards takes in the cards that there are now. A worker shows its card before it
// can be called, so that those are counted that can be.
func (c *Catalog) noteCards(ctx context.Context, cards []drt.Card) error {
	var errs error
	kinds := make(map[string]map[kind]int) // cards, by model and kind
	lengths := make(map[string]int)
	for _, one := range cards {
		if only := c.options.Namespace; only != "" && one.Instance.Namespace != only {
			continue
		}
		card, err := readCard(one.JSON)
		if err != nil || card.Name == "" {
			continue // another program's
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

// findTarget returns the workers that answer for a model, and how many there are: workers that do all
// of a request, or a pair; nil if there is only one half of a pair. Of several endpoints, the one with most
// workers is taken, then the first by name.
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

// openPool returns the pool of an endpoint, opened at the first call. c.mu is held.
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

// Models lists the models that are served now, by name, and a channel that is
// closed when that changes.
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

// Find returns a model that is served, or was: then its requests find no instances.
func (c *Catalog) Find(name string) (Served, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.models[name]
	if m == nil {
		return Served{}, false
	}
	return *m, true
}
