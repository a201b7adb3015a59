package drt

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
)

// instances are the known instances of one endpoint, shared by its clients.
type instances struct {
	rt   *Runtime
	name Name

	mu       sync.Mutex
	byLayout [][]Instance
	merged   []Instance    // sorted by id
	changed  chan struct{} // closed at the next change
}

// watchInstances starts to watch the instances of an endpoint.
func (rt *Runtime) watchInstances(ctx context.Context, name Name) (*instances, error) {
	in := &instances{rt: rt, name: name, changed: make(chan struct{})}
	if rt.config.Discovery == Static {
		in.merged = rt.staticInstances(name)
		return in, nil
	}
	in.byLayout = make([][]Instance, len(allLayouts()))
	for i, l := range allLayouts() {
		decode := func(value []byte) (Instance, error) { return l.decodeInstance(value, name) }
		err := watchValues(ctx, rt.store, keysOf{l.prefix(name), rt.config.Lease}, decode, func(all []Instance) { in.setLayout(i, all) })
		if err != nil {
			return nil, err
		}
	}
	return in, nil
}

// setLayout stores the instances of one layout and merges them with the instances of the other layouts. If an id has
// instances in several layouts, the later layout is used.
func (in *instances) setLayout(index int, all []Instance) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.byLayout[index] = all
	byID := make(map[uint64]Instance)
	for _, one := range slices.Concat(in.byLayout...) {
		byID[one.ID] = one
	}
	before := in.merged
	in.merged = slices.Collect(maps.Values(byID))
	sortByID(in.merged)
	if slices.Equal(before, in.merged) {
		return
	}
	in.announceChanges(before)
	close(in.changed)
	in.changed = make(chan struct{})
}

// announceChanges notifies waiting calls of removed and added instances.
func (in *instances) announceChanges(before []Instance) {
	for _, one := range before {
		if !hasID(in.merged, one.ID) {
			in.rt.homes.buryInstance(place{in.name, one.ID})
		}
	}
	for _, one := range in.merged {
		if !hasID(before, one.ID) {
			in.rt.homes.reviveInstance(place{in.name, one.ID})
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

// findByID finds an id in instances that are sorted by id.
func findByID(all []Instance, id uint64) (Instance, bool) {
	i, ok := slices.BinarySearchFunc(all, id, func(one Instance, id uint64) int { return cmp.Compare(one.ID, id) })
	if !ok {
		return Instance{}, false
	}
	return all[i], true
}

// listInstances returns the known instances, and a channel that is closed when they change. The slice is never
// modified.
func (in *instances) listInstances() ([]Instance, <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.merged, in.changed
}
