package drt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/fault"
)

// Hub is discovery and request plane inside one process, for tests: what etcd and
// NATS are to runtimes elsewhere. Its leases end only when they are revoked.
type Hub struct {
	mu       sync.Mutex
	nextID   uint64
	leases   map[uint64]bool
	keys     map[string]hubValue
	watchers map[*hubWatcher]bool
	handlers map[string][]*serving // by subject
	turn     int
}

type hubValue struct {
	value []byte
	lease uint64
}

type hubWatcher struct {
	prefix string
	queue  chan []change
}

// NewHub returns an empty hub.
func NewHub() *Hub {
	return &Hub{
		nextID: 0x5eed0000, leases: make(map[uint64]bool), keys: make(map[string]hubValue),
		watchers: make(map[*hubWatcher]bool), handlers: make(map[string][]*serving),
	}
}

// Revoke ends the lease of an instance, as if it had expired.
func (h *Hub) Revoke(id uint64) { _ = h.revokeLease(context.Background(), id) }

// Keys lists all keys, sorted.
func (h *Hub) Keys() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.keys))
}

func (h *Hub) grantLease(_ context.Context, ttl time.Duration) (uint64, time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nextID++
	h.leases[h.nextID] = true
	return h.nextID, ttl, nil
}

func (h *Hub) renewLease(_ context.Context, id uint64) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leases[id] {
		return 0, errLeaseGone
	}
	return time.Hour, nil
}

func (h *Hub) revokeLease(_ context.Context, id uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leases, id)
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(h.keys)) {
		if h.keys[k].lease == id {
			keys = append(keys, k)
		}
	}
	h.dropKeys(keys)
	return nil
}

// dropKeys removes keys; the lock is held.
func (h *Hub) dropKeys(keys []string) {
	var gone []change
	for _, k := range keys {
		if _, ok := h.keys[k]; ok {
			delete(h.keys, k)
			gone = append(gone, change{pair{key: k}, true})
		}
	}
	h.notifyWatchers(gone)
}

func (h *Hub) createKeys(_ context.Context, lease uint64, pairs []pair) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leases[lease] {
		return errLeaseGone
	}
	for _, p := range pairs {
		if v, ok := h.keys[p.key]; ok && v.lease != lease {
			return fmt.Errorf("%s: belongs to instance %s", p.key, hexID(v.lease))
		}
	}
	var made []change
	for _, p := range pairs {
		h.keys[p.key] = hubValue{p.value, lease}
		made = append(made, change{pair: p})
	}
	h.notifyWatchers(made)
	return nil
}

func (h *Hub) removeKeys(_ context.Context, keys []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropKeys(keys)
	return nil
}

// notifyWatchers shows changes to those who watch; the lock is held, which keeps them in
// order.
func (h *Hub) notifyWatchers(all []change) {
	for w := range h.watchers {
		var some []change
		for _, c := range all {
			if strings.HasPrefix(c.key, w.prefix) {
				some = append(some, c)
			}
		}
		if len(some) > 0 {
			w.queue <- some
		}
	}
}

func (h *Hub) watchPrefix(ctx context.Context, prefix string, see func([]change)) error {
	w := &hubWatcher{prefix, make(chan []change, 1<<12)}
	h.mu.Lock()
	var there []change
	for _, k := range slices.Sorted(maps.Keys(h.keys)) {
		if strings.HasPrefix(k, prefix) {
			there = append(there, change{pair: pair{k, h.keys[k].value}})
		}
	}
	h.watchers[w] = true
	h.mu.Unlock()
	see(there)
	go func() {
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.watchers, w)
		}()
		for {
			select {
			case <-ctx.Done():
				return
			case some := <-w.queue:
				see(some)
			}
		}
	}()
	return nil
}

// hubStore is a runtime's connection to a hub.
type hubStore struct{ *Hub }

func (hubStore) closeStore() error { return nil }

// hubPlane is a hub as a request plane.
type hubPlane struct{ hub *Hub }

func (p hubPlane) serveInstance(s serving) (func(), error) {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, subject := range s.subjects {
		h.handlers[subject] = append(h.handlers[subject], &s)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, subject := range s.subjects {
			h.handlers[subject] = slices.DeleteFunc(h.handlers[subject], func(one *serving) bool { return one == &s })
		}
	}, nil
}

func (p hubPlane) sendRequest(ctx context.Context, to Instance, m message) error {
	h := p.hub
	h.mu.Lock()
	var taker *serving
	if all := h.handlers[to.Transport.Subject]; len(all) > 0 {
		h.turn++
		taker = all[h.turn%len(all)]
	}
	h.mu.Unlock()
	if taker == nil {
		return fault.New(fault.CannotConnect, "nobody serves %s: %w", to.Transport.Subject, ErrNoInstances)
	}
	select {
	case r := <-taker.handOver(m):
		return refusalError(r)
	case <-ctx.Done():
		return fault.New(fault.ConnectionTimeout, "%v: no acknowledgement: %v", to.Name, context.Cause(ctx))
	}
}

func (p hubPlane) frameLimit(Instance) int { return 0 }
func (p hubPlane) closePlane()             {}
