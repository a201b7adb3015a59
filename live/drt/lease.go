package drt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// takeLease takes the lease and keeps it in the background.
func (rt *Runtime) takeLease(ctx context.Context) error {
	id, err := rt.store.grantLease(ctx, rt.config.Lease)
	if err != nil {
		return err
	}
	rt.id = id
	rt.keeping.Go(func() { rt.keepLease(id) })
	return nil
}

// leaveTry bounds one attempt to give the lease back, and the last one of a runtime that closes.
const leaveTry = 2 * time.Second

// Leave gives the lease back, with all keys under it. Nothing is registered from then on. It is tried until etcd
// answers or the runtime is closed; the channel is closed when the keys are gone.
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
			return // closed meanwhile
		}
	}
}

// renewUntilLost renews the lease when a third of its time is over, and at once when
// a check was requested, until the lease is gone, or may be.
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

// loseLease ends what depends on the lease: endpoints refuse from now on.
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

// regainLease renews the lease, or takes one of the same id, and registers everything under it, when etcd accepts it.
func (rt *Runtime) regainLease(id uint64) error {
	for backoff := 50 * time.Millisecond; ; backoff = min(2*backoff, time.Second) {
		err := rt.reregisterAll(id)
		if err == nil {
			rt.log.Warn("registered again", "instance", hexID(id))
			return nil
		}
		if rt.store.contact.isAnswering() { // else it is known that etcd is away
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

// reregisterAll registers the servings again. The id stays the same: etcd gives no id twice, and callers of
// this instance still find it.
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
		if !rt.isAnnounced(key) { // it was withdrawn meanwhile
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

// registerAgain registers what was registered.
func (s *Serving) registerAgain(ctx context.Context) error {
	if !s.isRegistered() {
		return nil
	}
	err := s.endpoint.rt.registerKeys(ctx, s.discoveryPairs())
	if !s.isRegistered() { // it has left meanwhile
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

// guardKey reads a key of our own: that it goes may mean that the lease has.
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

// unregisterKeys removes them. They go with the lease when the runtime leaves.
func (rt *Runtime) unregisterKeys(ctx context.Context, pairs []pair) error {
	if rt.store == nil || rt.leasing.Err() != nil {
		return nil
	}
	return rt.store.removeKeys(ctx, pairs)
}

// addServing remembers what is served.
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

// Close closes what is still served (Serving.Close), gives the lease back and
// ends all connections. Streams of calls made here continue until they end.
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

// disconnectAll ends everything in the background.
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
		_ = rt.store.client.Close() // nothing depends on it any more
	}
}
