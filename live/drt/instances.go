package drt

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// instances is what discovery knows of one endpoint, shared by its clients.
type instances struct {
	rt   *Runtime
	name Name

	mu      sync.Mutex
	byKey   []map[string]Instance // of each layout; a removed key tells no value
	merged  []Instance            // by id
	changed chan struct{}         // closed at the next change
}

// watchInstances starts to look for the instances of an endpoint.
func (rt *Runtime) watchInstances(ctx context.Context, name Name) (*instances, error) {
	in := &instances{rt: rt, name: name, changed: make(chan struct{})}
	if rt.config.Discovery == Static {
		in.merged = rt.staticInstances(name)
		return in, nil
	}
	for range allLayouts() { // all of them, before the first change of any arrives
		in.byKey = append(in.byKey, make(map[string]Instance))
	}
	for i, l := range allLayouts() {
		err := rt.store.watchPrefix(ctx, l.prefix(name), func(changes []change) { in.applyChanges(i, l, changes) })
		if err != nil {
			return nil, err
		}
	}
	return in, nil
}

// applyChanges notes changes of the keys of one layout.
func (in *instances) applyChanges(index int, l layout, changes []change) {
	in.mu.Lock()
	defer in.mu.Unlock()
	before := in.merged
	for _, c := range changes {
		if c.gone {
			delete(in.byKey[index], c.key)
			continue
		}
		one, err := l.decodeInstance(c.value, in.name)
		if errors.Is(err, errOther) {
			continue
		}
		if err != nil {
			in.rt.log.Warn("key skipped", "key", c.key, "reason", err)
			continue
		}
		in.byKey[index][c.key] = one
	}
	in.mergeLayouts()
	if slices.Equal(before, in.merged) {
		return
	}
	in.announceChanges(before)
	close(in.changed)
	in.changed = make(chan struct{})
}

// mergeLayouts joins what the layouts say; the later one is preferred.
func (in *instances) mergeLayouts() {
	all := make(map[uint64]Instance)
	for _, keys := range in.byKey {
		for _, one := range keys {
			all[one.ID] = one
		}
	}
	in.merged = slices.Collect(maps.Values(all))
	sortByID(in.merged)
}

// announceChanges notifies waiting calls of instances that have gone or come.
func (in *instances) announceChanges(before []Instance) {
	for _, one := range before {
		if !hasID(in.merged, one.ID) {
			in.rt.buryInstance(place{in.name, one.ID})
		}
	}
	for _, one := range in.merged {
		if !hasID(before, one.ID) {
			in.rt.reviveInstance(place{in.name, one.ID})
		}
	}
}

func sortByID(all []Instance) {
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
}

func hasID(all []Instance, id uint64) bool {
	_, ok := findByID(all, id)
	return ok
}

// findByID looks for id among instances sorted by it.
func findByID(all []Instance, id uint64) (Instance, bool) {
	i, ok := slices.BinarySearchFunc(all, id, func(one Instance, id uint64) int { return cmp.Compare(one.ID, id) })
	if !ok {
		return Instance{}, false
	}
	return all[i], true
}

// listInstances returns what is known now, and a channel that is closed when that changes. The
// slice is never written to.
func (in *instances) listInstances() ([]Instance, <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.merged, in.changed
}
