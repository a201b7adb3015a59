package engines

import (
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/sim"
)

// Loss is a loss of workers of a cluster.
type Loss struct {
	Name string    // description of the lost workers
	Left *Topology // the remaining cluster; nil if a pool has no worker left
}

// place is a worker of a pool.
type place struct {
	pool int
	id   sim.WorkerID
}

// AnyGone returns the losses of any count workers. Equal workers are interchangeable, so AnyGone returns only one of
// several equal losses.
func (t *Topology) AnyGone(count int) []Loss {
	var classes [][]place
	index := map[string]int{}
	for pool := range t.Pools {
		for id := range sim.WorkerID(t.Pools[pool].Count) {
			key := t.classOf(place{pool, id})
			i, ok := index[key]
			if !ok {
				i = len(classes)
				index[key] = i
				classes = append(classes, nil)
			}
			classes[i] = append(classes[i], place{pool, id})
		}
	}
	var all []Loss
	var choose func(i, left int, gone []place)
	choose = func(i, left int, gone []place) {
		if left == 0 {
			all = append(all, t.lossOf(gone))
			return
		}
		for n := min(left, len(classesAt(classes, i))); n >= 0 && i < len(classes); n-- {
			choose(i+1, left-n, append(gone[:len(gone):len(gone)], classes[i][:n]...))
		}
	}
	choose(0, count, nil)
	return all
}

func classesAt(classes [][]place, i int) []place {
	if i < len(classes) {
		return classes[i]
	}
	return nil
}

// classOf returns the common properties of interchangeable workers.
func (t *Topology) classOf(at place) string {
	p := &t.Pools[at.pool]
	return fmt.Sprint(at.pool, " ", p.kindOf(at.id), " ", t.speedOf(at.pool, at.id))
}

// ZoneGone returns the loss of each zone. Workers are assigned to the given number of zones in turn, by id. Zones
// with equal losses are listed once.
func (t *Topology) ZoneGone(zones int) []Loss {
	var all []Loss
	seen := map[string]bool{}
	for zone := range zones {
		var gone []place
		var classes []string
		for pool := range t.Pools {
			for id := zone; id < t.Pools[pool].Count; id += zones {
				at := place{pool, sim.WorkerID(id)}
				gone = append(gone, at)
				classes = append(classes, t.classOf(at))
			}
		}
		slices.Sort(classes)
		if key := strings.Join(classes, ";"); len(gone) > 0 && !seen[key] {
			seen[key] = true
			x := t.lossOf(gone)
			x.Name = fmt.Sprintf("zone %d of %d, %s", zone, zones, x.Name)
			all = append(all, x)
		}
	}
	return all
}

// lossOf returns t without the given workers.
func (t *Topology) lossOf(gone []place) Loss {
	left := *t
	left.Pools, left.WorkerSpeeds = slices.Clone(t.Pools), slices.Clone(t.WorkerSpeeds)
	var names []string
	for i := range left.Pools {
		var ids []sim.WorkerID
		for _, at := range gone {
			if at.pool == i {
				ids = append(ids, at.id)
			}
		}
		if len(ids) == 0 {
			continue
		}
		names = append(names, t.Pools[i].describeGone(ids))
		if !left.removeWorkers(i, ids) {
			return Loss{Name: strings.Join(append(names, "no worker is left"), ", ")}
		}
	}
	return Loss{Name: strings.Join(names, " and "), Left: &left}
}

// describeGone describes workers of p by their number and kind.
func (p *Pool) describeGone(ids []sim.WorkerID) string {
	what := p.nameOf("workers")
	if len(ids) == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	text := fmt.Sprintf("%d %s", len(ids), what)
	if len(p.Mix) > 0 {
		var kinds []string
		for _, id := range ids {
			kinds = append(kinds, p.Mix[p.kindOf(id)].Name)
		}
		slices.Sort(kinds)
		text += " (" + strings.Join(kinds, ", ") + ")"
	}
	return text
}

// removeWorkers removes workers from a pool. removeWorkers reports false if no worker is left.
func (t *Topology) removeWorkers(i int, ids []sim.WorkerID) bool {
	p := t.Pools[i]
	if p.Count == len(ids) {
		return false
	}
	if len(p.Mix) > 0 {
		kinds := slices.Clone(p.Mix)
		for _, id := range ids {
			kinds[p.kindOf(id)].Count--
		}
		p = Mix(slices.DeleteFunc(kinds, func(k Kind) bool { return k.Count == 0 }))
		p.Role = t.Pools[i].Role
	} else {
		p.Count -= len(ids)
	}
	if i < len(t.WorkerSpeeds) && len(t.WorkerSpeeds[i]) > 0 {
		var speeds []float64
		for id, speed := range t.WorkerSpeeds[i] {
			if !slices.Contains(ids, sim.WorkerID(id)) {
				speeds = append(speeds, speed)
			}
		}
		t.WorkerSpeeds[i] = speeds
	}
	t.Pools[i] = p
	return true
}
