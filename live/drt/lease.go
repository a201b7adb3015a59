package drt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// takeLease creates the lease and keeps it alive in the background.
func (rt *Runtime) takeLease(ctx context.Context) error {
	id, err := rt.store.grantLease(ctx, rt.config.Lease)
	if err != nil {
		return err
	}
	rt.id = id
	rt.keeping.Go(func() { rt.keepLease(id) })
	return nil
}

// leaveTry is the timeout of each attempt to revoke the lease. leaveTry also limits the wait of Close.
const leaveTry = 2 * time.Second

// Leave revokes the lease, which removes all its keys. From then on no key is registered. Leave retries until etcd
// answers or the runtime is closed. The channel is closed after the removal of the keys.
func (rt *Runtime) Leave() <-chan struct{} {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.left != nil {
		return rt.left
	}
	left := make(chan struct{})
	rt.left, rt.leaving = left, time.Now()
	if rt.unlease(); rt.id == 0 || rt.store == nil || rt.lost != nil {
		close(left)
		return left
	}
	rt.behind.Go(func() {
		rt.keeping.Wait()
		for rt.ctx.Err() == nil {
			ctx, release := context.WithTimeout(rt.ctx, leaveTry)
			err := rt.store.revokeLease(ctx, rt.id)
			release()
			if err == nil {
				close(left)
				return
			}
			select {
			case <-time.After(leaveTry / 20):
			case <-rt.ctx.Done():
			}
		}
	})
	return left
}

// keepLease renews the lease until the runtime leaves or the lease is lost for good.
func (rt *Runtime) keepLease(id uint64) {
	for {
		err := rt.renewUntilLost(id)
		if rt.leasing.Err() != nil {
			return
		}
		if rt.config.LeaseLoss == Exit {
			rt.log.Error("lease lost", "instance", hexID(id), "reason", err)
			rt.loseLease(fmt.Errorf("%w: instance %s: %w", ErrLeaseLost, hexID(id), err))
			return
		}
		rt.log.Warn("lease lost; continues to serve, and registers again when etcd answers", "instance", hexID(id), "reason", err)
		if rt.regainLease(id) != nil {
			return // the runtime leaves
		}
	}
}

// renewUntilLost renews the lease after each third of its time, and at once when a check is requested. renewUntilLost
// returns when the lease is or may be lost.
func (rt *Runtime) renewUntilLost(id uint64) error {
	third := rt.config.Lease / 3
	wait, renewed := third, time.Now()
	for {
		select {
		case <-time.After(wait):
		case <-rt.poke:
		case <-rt.leasing.Done():
			return rt.leasing.Err()
		}
		began := time.Now()
		ctx, release := context.WithTimeout(rt.leasing, max(third, time.Second))
		err := rt.store.renewLease(ctx, id)
		release()
		switch {
		case err == nil:
			wait, renewed = third, began
		case errors.Is(err, errLeaseGone):
			return err
		case time.Since(renewed) > rt.config.Lease:
			return fmt.Errorf("not renewed for %v: %w", time.Since(renewed).Round(time.Second), err)
		default:
			wait = min(third, 250*time.Millisecond)
		}
	}
}

// loseLease makes the endpoints refuse requests, and closes Done.
func (rt *Runtime) loseLease(err error) {
	rt.mu.Lock()
	rt.lost = err
	all := slices.Clone(rt.servings)
	rt.mu.Unlock()
	for _, s := range all {
		s.Refuse()
	}
	close(rt.done)
}

// regainLease retries until it has renewed the lease or created it again under the same id, and has registered all
// keys.
func (rt *Runtime) regainLease(id uint64) error {
	for backoff := 50 * time.Millisecond; ; backoff = min(2*backoff, time.Second) {
		err := rt.reregisterAll(id)
		if err == nil {
			rt.log.Warn("registered again", "instance", hexID(id))
			return nil
		}
		if rt.store.contact.isAnswering() { // an outage of etcd is logged by contact
			rt.log.Warn("not registered yet", "instance", hexID(id), "reason", err)
		}
		select {
		case <-time.After(backoff):
		case <-rt.poke:
		case <-rt.leasing.Done():
			return rt.leasing.Err()
		}
	}
}

// reregisterAll registers all keys again. The id stays the same: etcd never reuses an id, and callers still find this
// instance.
func (rt *Runtime) reregisterAll(id uint64) error {
	ctx, release := context.WithTimeout(rt.leasing, rt.config.Connect)
	defer release()
	err := rt.store.renewLease(ctx, id)
	if errors.Is(err, errLeaseGone) {
		err = rt.store.grantLeaseAs(ctx, id, rt.config.Lease)
	}
	if err != nil {
		return err
	}
	rt.mu.Lock()
	all := slices.Clone(rt.servings)
	cards, announced := maps.Clone(rt.cards), maps.Clone(rt.announced)
	rt.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(announced)) {
		if err := rt.registerKeys(ctx, []pair{{key, announced[key]}}); err != nil {
			return err
		}
		if !rt.isAnnounced(key) { // the key was withdrawn meanwhile
			err = errors.Join(err, rt.unregisterKeys(ctx, []pair{{key: key}}))
		}
	}
	for name, card := range cards {
		if err := rt.writeCard(ctx, name, card); err != nil {
			return err
		}
	}
	for _, s := range all {
		err = errors.Join(err, s.registerAgain(ctx))
	}
	return err
}

// registerAgain registers the serving again, if it was registered.
func (s *Serving) registerAgain(ctx context.Context) error {
	if !s.isRegistered() {
		return nil
	}
	err := s.endpoint.rt.registerKeys(ctx, s.discoveryPairs())
	if !s.isRegistered() { // the serving was unregistered meanwhile
		err = errors.Join(err, s.endpoint.rt.unregisterKeys(ctx, s.discoveryPairs()))
	}
	return err
}

func (s *Serving) isRegistered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.registered
}

// registerKeys writes keys under the lease.
func (rt *Runtime) registerKeys(ctx context.Context, pairs []pair) error {
	if rt.store == nil {
		return nil
	}
	if rt.config.CallsOnly {
		return errCallsOnly
	}
	if rt.leasing.Err() != nil {
		return errors.New("the runtime leaves")
	}
	if err := rt.store.createKeys(ctx, rt.ID(), pairs); err != nil {
		return err
	}
	return rt.guardKey(ctx, pairs[0].key)
}

// guardKey watches a key of this runtime: if the key disappears, the lease may be lost.
func (rt *Runtime) guardKey(ctx context.Context, key string) error {
	rt.mu.Lock()
	known := rt.guarded[key]
	rt.guarded[key] = true
	rt.mu.Unlock()
	if known {
		return nil
	}
	there := func([]byte) (bool, error) { return true, nil }
	return watchValues(ctx, rt.store, keysOf{key, 0}, there, func(all []bool) {
		if len(all) == 0 {
			rt.poke.Ring()
		}
	})
}

// unregisterKeys removes keys. When the runtime leaves, the keys are removed with the lease instead.
func (rt *Runtime) unregisterKeys(ctx context.Context, pairs []pair) error {
	if rt.store == nil || rt.leasing.Err() != nil {
		return nil
	}
	return rt.store.removeKeys(ctx, pairs)
}

// addServing registers a serving with the runtime.
func (rt *Runtime) addServing(s *Serving) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		return errors.New("the runtime is closed")
	}
	if rt.config.CallsOnly {
		return errCallsOnly
	}
	rt.servings = append(rt.servings, s)
	if rt.lost != nil {
		return rt.lost
	}
	return nil
}

func (rt *Runtime) removeServing(s *Serving) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.servings = slices.DeleteFunc(rt.servings, func(one *Serving) bool { return one == s })
}

// Close closes all servings (Serving.Close), revokes the lease and closes all connections. Streams of calls from this
// runtime continue until they end.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.mu.Lock()
	if rt.closed {
		rt.mu.Unlock()
		return nil
	}
	rt.closed = true
	all := slices.Clone(rt.servings)
	rt.mu.Unlock()
	left := rt.Leave()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close(ctx))
	}
	rt.mu.Lock()
	wait := max(leaveTry-time.Since(rt.leaving), leaveTry/20)
	rt.mu.Unlock()
	select {
	case <-left:
	case <-time.After(wait):
		errs = append(errs, fmt.Errorf("etcd does not answer: the keys of instance %s end with its lease, in %v", hexID(rt.id), rt.config.Lease))
	}
	rt.disconnectAll()
	return errors.Join(errs...)
}

// disconnectAll ends the background goroutines and closes the connections.
func (rt *Runtime) disconnectAll() {
	rt.cancel()
	rt.keeping.Wait()
	rt.behind.Wait()
	rt.homes.closeAll()
	rt.closeLines()
	if rt.plane != nil {
		rt.plane.closePlane()
	}
	if rt.store != nil {
		_ = rt.store.client.Close() // nothing depends on the client any more
	}
}
