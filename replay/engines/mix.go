package engines

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/sim"
)

// Kind is workers of a pool with the same engine.
type Kind struct {
	Name   string // of a deployment or a GPU
	Engine engineargs.Args
	Count  int // at least 1
}

// Mix returns a pool of the given kinds of workers, at least one. The workers of the first kind have the first ids.
// If all kinds are equal, Mix returns a plain pool.
func Mix(kinds []Kind) Pool {
	p := Pool{Role: kinds[0].Engine.Role, Engine: kinds[0].Engine}
	alike := true
	for i := range kinds {
		p.Count += kinds[i].Count
		alike = alike && reflect.DeepEqual(kinds[i].Engine, p.Engine)
	}
	if !alike {
		p.Mix = kinds
	}
	return p
}

// Kinds returns the kinds of workers of p. The kind of a plain pool has no name.
func (p *Pool) Kinds() []Kind {
	if len(p.Mix) > 0 {
		return p.Mix
	}
	return []Kind{{Engine: p.Engine, Count: p.Count}}
}

// KindOf returns the index of the kind of a worker, including workers that an autoscaler has added.
func (s *Stage) KindOf(id sim.WorkerID) int {
	if int(id) < s.Count {
		return s.Pool.kindOf(id)
	}
	return s.laterKind()
}

// laterKind returns the index of the kind of workers that an autoscaler adds to a mix.
func (t *Topology) laterKind() int {
	for i := range t.Pools[0].Mix {
		if t.Autoscale != nil && t.Pools[0].Mix[i].Name == t.Autoscale.NewKind {
			return i
		}
	}
	return 0
}

// checkNewKind rejects a kind of new workers that does not exist.
func (t *Topology) checkNewKind() error {
	for i := range t.Pools {
		a := t.AutoscalerOf(i)
		if a == nil || a.NewKind == "" || slices.ContainsFunc(t.Pools[i].Mix, func(k Kind) bool { return k.Name == a.NewKind }) {
			continue
		}
		if len(t.Pools[i].Mix) == 0 {
			return fmt.Errorf("new workers of kind %s, require a mix of kinds", a.NewKind)
		}
		return fmt.Errorf("new workers of kind %s, must be one of %s", a.NewKind, t.Pools[i].DescribeKinds())
	}
	return nil
}

// pool returns k as a pool of one kind.
func (k *Kind) pool() *Pool { return &Pool{Role: k.Engine.Role, Engine: k.Engine, Count: k.Count} }

// kindOf returns the index of the kind of a worker.
func (p *Pool) kindOf(id sim.WorkerID) int {
	i := 0
	for i+1 < len(p.Mix) && int(id) >= p.Mix[i].Count {
		id -= sim.WorkerID(p.Mix[i].Count)
		i++
	}
	return i
}

// KindNames returns the name of the kind of each worker of the entry pool, nil for a plain pool. Workers that an
// autoscaler adds have the last name.
func (t *Topology) KindNames() []string {
	var names []string
	mix := t.Pools[0].Mix
	for i := range mix {
		names = append(names, slices.Repeat([]string{mix[i].Name}, mix[i].Count)...)
	}
	if k, ok := t.LaterKind(); ok {
		names = append(names, k.Name)
	}
	return names
}

// LaterKind returns the kind of workers that an autoscaler adds to a mix. ok reports whether there is one.
func (t *Topology) LaterKind() (k Kind, ok bool) {
	if t.Autoscale == nil || len(t.Pools[0].Mix) == 0 {
		return Kind{}, false
	}
	k = t.Pools[0].Mix[t.laterKind()]
	k.Count = 1
	return k, true
}

// resize returns p with another number of workers. A mix is repeated, and the remaining workers are of its kinds in
// order.
func (p Pool) resize(count int) Pool {
	if len(p.Mix) == 0 || count == p.Count {
		p.Count = count
		return p
	}
	var kinds []Kind
	times, left := count/p.Count, count%p.Count
	for _, k := range p.Mix {
		more := min(left, k.Count)
		left -= more
		if k.Count = times*k.Count + more; k.Count > 0 {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		p.Count, p.Mix = count, nil // Validate rejects this pool
		return p
	}
	return Mix(kinds)
}

// changeEngines returns p with its engines changed by a function.
func (p Pool) changeEngines(change func(*engineargs.Args)) Pool {
	change(&p.Engine)
	p.Mix = slices.Clone(p.Mix)
	for i := range p.Mix {
		change(&p.Mix[i].Engine)
	}
	return p
}

// checkKinds calls check with each kind of workers of p as a pool.
func (p *Pool) checkKinds(check func(*Pool) error) error {
	if len(p.Mix) == 0 {
		return check(p)
	}
	for i := range p.Mix {
		one := p.Mix[i].pool()
		one.Role = p.Role
		if err := check(one); err != nil {
			return fmt.Errorf("%s: %w", p.Mix[i].Name, err)
		}
	}
	return nil
}

// checkMixes rejects mixes that one router cannot serve.
func (t *Topology) checkMixes() error {
	for i := range t.Pools {
		p := &t.Pools[i]
		switch {
		case len(p.Mix) == 0:
			continue
		case t.Disaggregated():
			return fmt.Errorf("%s workers of %d kinds, require a mix where workers both prefill and decode", p.Role, len(p.Mix))
		case t.Compat:
			return fmt.Errorf("workers of %d kinds, which the reference does not have, expected one kind", len(p.Mix))
		case len(t.Scale) > 0:
			return fmt.Errorf("workers of %d kinds that start and stop, must be a fixed mix", len(p.Mix))
		}
		first := &p.Mix[0]
		for j := range p.Mix {
			if k := &p.Mix[j]; k.Engine.BlockTokens != first.Engine.BlockTokens {
				return fmt.Errorf("block_size is %d for %s and %d for %s, must be the same: one router knows the caches of both by their blocks",
					first.Engine.BlockTokens, first.Name, k.Engine.BlockTokens, k.Name)
			}
		}
	}
	return nil
}

// DescribeKinds describes the number of workers of each kind, "" for a plain pool.
func (p *Pool) DescribeKinds() string {
	var parts []string
	for i := range p.Mix {
		parts = append(parts, fmt.Sprintf("%d of %s", p.Mix[i].Count, p.Mix[i].Name))
	}
	return strings.Join(parts, ", ")
}

// describeMix describes the number of workers of each kind, with their GPUs.
func (t *Topology) describeMix(p *Pool) string {
	text := p.DescribeKinds()
	if gpus, err := t.GPUs(); err == nil && gpus.Count > 0 {
		text += fmt.Sprintf("; %d GPUs", gpus.Count)
		if gpus.Price > 0 {
			text += fmt.Sprintf(", %.2f an hour by default prices", gpus.Price)
		}
	}
	return text
}
