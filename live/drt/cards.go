package drt

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// cardPrefix is the prefix of the keys of model cards.
const cardPrefix = "v1/mdc/"

// Card describes the model that an instance serves.
type Card struct {
	Instance Name
	ID       uint64
	// JSON is the model card: name, context length, block size and more.
	JSON json.RawMessage
}

// cardRecord is the value of a model card's key.
type cardRecord struct {
	Type       string          `json:"type"`
	Namespace  string          `json:"namespace"`
	Component  string          `json:"component"`
	Endpoint   string          `json:"endpoint"`
	InstanceID uint64          `json:"instance_id"`
	Card       json.RawMessage `json:"card_json"`
}

// PutCard registers the card of the model that this runtime serves at the endpoint. Without discovery PutCard does
// nothing.
func (e *Endpoint) PutCard(ctx context.Context, card json.RawMessage) error {
	if !json.Valid(card) {
		return fmt.Errorf("model card of %v: not JSON: %q", e.name, excerpt.Cut(card))
	}
	e.rt.mu.Lock()
	e.rt.cards[e.name] = card
	e.rt.mu.Unlock()
	return e.rt.writeCard(ctx, e.name, card)
}

func cardKey(n Name, id uint64) string {
	return cardPrefix + n.Namespace + "/" + n.Component + "/" + n.Endpoint + "/" + hexID(id)
}

func (rt *Runtime) writeCard(ctx context.Context, name Name, card json.RawMessage) error {
	id := rt.ID()
	value, err := json.Marshal(cardRecord{"Model", name.Namespace, name.Component, name.Endpoint, id, card})
	if err != nil {
		return fmt.Errorf("model card of %v: %w", name, err)
	}
	return rt.registerKeys(ctx, []pair{{cardKey(name, id), value}})
}

// Cards are the model cards in discovery, kept up to date.
type Cards struct {
	mu      sync.Mutex
	list    []Card // sorted by endpoint name and id
	changed chan struct{}
}

// Cards returns all model cards, which are updated as long as the runtime lives. Without discovery Cards returns the
// cards of the configuration.
func (rt *Runtime) Cards(ctx context.Context) (*Cards, error) {
	c := &Cards{changed: make(chan struct{})}
	if rt.store == nil {
		c.list = rt.staticCards()
		return c, nil
	}
	return c, watchValues(ctx, rt.store, keysOf{cardPrefix, rt.config.Lease}, decodeCard, c.setList)
}

// staticCards returns the cards of the configured instances.
func (rt *Runtime) staticCards() (all []Card) {
	for _, text := range slices.Sorted(maps.Keys(rt.config.StaticCards)) {
		parts := strings.SplitN(text, ".", 3)
		for _, one := range rt.staticInstances(Name{parts[0], parts[1], parts[2]}) {
			all = append(all, Card{one.Name, one.ID, rt.config.StaticCards[text]})
		}
	}
	return all
}

func decodeCard(value []byte) (Card, error) {
	var r cardRecord
	err := json.Unmarshal(value, &r)
	return Card{Name{r.Namespace, r.Component, r.Endpoint}, r.InstanceID, r.Card}, err
}

func (c *Cards) setList(all []Card) {
	slices.SortFunc(all, func(a, b Card) int {
		return cmp.Or(cmp.Compare(a.Instance.String(), b.Instance.String()), cmp.Compare(a.ID, b.ID))
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = all
	close(c.changed)
	c.changed = make(chan struct{})
}

// List returns the known cards, sorted by endpoint name and id, and a channel that is closed when the cards change.
// The slice is never modified.
func (c *Cards) List() ([]Card, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list, c.changed
}
