package drt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// takeLease takes the first lease and keeps it in the background.
func (rt *Runtime) takeLease(ctx context.Context) error {
	id, err := rt.store.grantLease(ctx, rt.config.Lease)
	if err != nil {
		return err
	}
	rt.mu.Lock()
	rt.id = id
	rt.mu.Unlock()
	rt.behind.Go(func() { rt.keepLeases(id) })
	return nil
}

// keepLeases renews leases until the runtime is closed or one is lost for good.
func (rt *Runtime) keepLeases(id uint64) {
	for {
		err := rt.renewUntilLost(id)
		if rt.ctx.Err() != nil {
			return
		}
		err = fmt.Errorf("%w: instance %s: %w", ErrLeaseLost, hexID(id), err)
		rt.log.Error("lease lost", "instance", hexID(id), "reason", err)
		if rt.config.LeaseLoss == Exit {
			rt.loseLease(err)
			return
		}
		if id, err = rt.regainLease(); err != nil {
			return // closed meanwhile
		}
	}
}

// renewUntilLost renews one lease until it is gone, or may be: etcd's client does
// so when a third of its time is over, and again and again while that does not
// work. When somebody saw a reason to look at the lease, it is looked at now.
func (rt *Runtime) renewUntilLost(id uint64) error {
	renewed, err := rt.store.client.KeepAlive(rt.ctx, clientv3.LeaseID(id))
	if err != nil {
		return err
	}
	for {
		select {
		case _, more := <-renewed:
			if !more {
				return errors.New("revoked, or not renewed in time")
			}
		case <-rt.poke:
			ctx, release := context.WithTimeout(rt.ctx, max(rt.config.Lease/4, time.Second))
			err := rt.store.renewLease(ctx, id)
			release()
			if errors.Is(err, errLeaseGone) {
				return err
			}
		}
	}
}

// suspectLease has the lease looked at now.
func (rt *Runtime) suspectLease() {
	select {
	case rt.poke <- struct{}{}:
	default:
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

// regainLease takes another lease and serves and registers everything under it.
func (rt *Runtime) regainLease() (uint64, error) {
	for backoff := 100 * time.Millisecond; ; backoff = min(2*backoff, 5*time.Second) {
		id, err := rt.reregisterAll()
		if err == nil {
			return id, nil
		}
		rt.log.Warn("no new lease", "reason", err)
		select {
		case <-time.After(backoff):
		case <-rt.ctx.Done():
			return 0, rt.ctx.Err()
		}
	}
}

func (rt *Runtime) reregisterAll() (uint64, error) {
	ctx, release := context.WithTimeout(rt.ctx, rt.config.Connect)
	defer release()
	id, err := rt.store.grantLease(ctx, rt.config.Lease)
	if err != nil {
		return 0, err
	}
	rt.mu.Lock()
	rt.id = id
	all := slices.Clone(rt.servings)
	cards := maps.Clone(rt.cards)
	rt.mu.Unlock()
	for name, card := range cards {
		if err := rt.writeCard(ctx, name, card); err != nil {
			return 0, err
		}
	}
	for _, s := range all {
		if err := s.moveToLease(ctx); err != nil {
			return 0, err
		}
	}
	rt.log.Info("registered again", "instance", hexID(id))
	return id, nil
}

// moveToLease serves under the runtime's new id, too, and registers there if it was
// registered. Who still knows the old subject is answered there.
func (s *Serving) moveToLease(ctx context.Context) error {
	if err := s.subscribeSubjects(); err != nil {
		return err
	}
	s.mu.Lock()
	registered := s.registered
	s.mu.Unlock()
	if !registered {
		return nil
	}
	return s.endpoint.rt.registerKeys(ctx, s.discoveryPairs())
}

// registerKeys writes keys under the lease.
func (rt *Runtime) registerKeys(ctx context.Context, pairs []pair) error {
	if rt.store == nil {
		return nil
	}
	if err := rt.store.createKeys(ctx, rt.ID(), pairs); err != nil {
		return err
	}
	return rt.guardKey(pairs[0].key)
}

// guardKey looks at a key of our own: that it goes may mean that the lease has.
func (rt *Runtime) guardKey(key string) error {
	rt.mu.Lock()
	known := rt.guarded[key]
	rt.guarded[key] = true
	rt.mu.Unlock()
	if known {
		return nil
	}
	there := func([]byte) (bool, error) { return true, nil }
	return watchValues(rt.ctx, rt.store, key, there, func(all []bool) {
		if len(all) == 0 {
			rt.suspectLease()
		}
	})
}

// unregisterKeys removes them.
func (rt *Runtime) unregisterKeys(ctx context.Context, pairs []pair) error {
	if rt.store == nil {
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
// ends all connections. Streams of calls made here go on until they end.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.mu.Lock()
	if rt.closed {
		rt.mu.Unlock()
		return nil
	}
	rt.closed = true
	all := slices.Clone(rt.servings)
	id, lost := rt.id, rt.lost
	rt.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close(ctx))
	}
	if rt.store != nil && lost == nil {
		// The keys go at once, and not when the lease runs out.
		ctx, release := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		errs = append(errs, rt.store.revokeLease(ctx, id))
		release()
	}
	rt.disconnectAll()
	return errors.Join(errs...)
}

// disconnectAll ends everything in the background.
func (rt *Runtime) disconnectAll() {
	rt.cancel()
	rt.behind.Wait()
	rt.homes.closeAll()
	if rt.plane != nil {
		rt.plane.closePlane()
	}
	if rt.store != nil {
		_ = rt.store.client.Close() // nothing depends on it any more
	}
}
