package drt

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/fault"
)

// Announce writes value under a discovery key of another package. The key exists as long as the lease, and is written
// again after a lost lease. Without discovery Announce does nothing.
func (rt *Runtime) Announce(ctx context.Context, key string, value json.RawMessage) error {
	if !json.Valid(value) {
		return fmt.Errorf("%s: not JSON: %q", key, excerpt.Cut(value))
	}
	rt.mu.Lock()
	rt.announced[key] = value
	rt.mu.Unlock()
	return rt.registerKeys(ctx, []pair{{key, value}})
}

// Withdraw removes a key that Announce has written.
func (rt *Runtime) Withdraw(ctx context.Context, key string) error {
	rt.mu.Lock()
	delete(rt.announced, key)
	rt.mu.Unlock()
	return rt.unregisterKeys(ctx, []pair{{key: key}})
}

// isAnnounced reports whether a key is announced now.
func (rt *Runtime) isAnnounced(key string) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.announced[key] != nil
}

// Publish sends a message to the current subscribers of a NATS subject. Publish does not wait for the subscribers,
// and returns an error while NATS is not connected.
func (rt *Runtime) Publish(subject string, payload []byte) error {
	if err := rt.plane.nats.conn.Publish(subject, payload); err != nil {
		return fault.New(fault.CannotConnect, "publish to %s: %w", subject, err)
	}
	return nil
}

// Transport returns the transport of the instance in the key layout V1.
func (s *Serving) Transport() Transport {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	all := allLayouts()
	return s.endpoint.rt.transportOf(all[len(all)-1], s.endpoint.name, id)
}
