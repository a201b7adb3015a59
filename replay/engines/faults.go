package engines

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Faults are the faults of a cluster, and the treatment of requests that they hit.
type Faults struct {
	Events []Fault    `yaml:"faults" is:"faults"`
	Laws   []FaultLaw `json:",omitempty"`

	OnLoss OnLoss `yaml:"on_loss" is:"loss"`
	// Limit is the maximum number of retries and migrations of a request. A request that exceeds Limit is lost.
	Limit int `yaml:"limit" is:"0..1000000"`
	// After is the time until a request returns to the router.
	After sim.Time `yaml:"after"`
	// Detect is the time until the router notices that a worker has died. Before Detect ends, the router still sends
	// requests to the worker.
	Detect sim.Time `json:",omitempty" yaml:"detect"`
	// Zones is the number of zones. The workers of each pool are assigned to zones in turn, by id. ZoneOf, if set, is
	// the zone of each worker of the only pool.
	Zones  int   `json:",omitempty" yaml:"zones" is:"zones"`
	ZoneOf []int `json:",omitempty"`
}

// OnLoss is the treatment of the requests of a worker that dies.
type OnLoss string

const (
	LoseThem    OnLoss = "lose"    // the requests are lost
	RetryThem   OnLoss = "retry"   // the requests restart from their prompts
	MigrateThem OnLoss = "migrate" // the requests continue elsewhere, with their tokens as a part of their prompts
)

// DefaultLimit is the default of Faults.Limit.
const DefaultLimit = 3

// FaultKind is the kind of a fault.
type FaultKind string

const (
	Dies    FaultKind = "dies"    // the worker loses its cache and its requests, and returns empty after Back
	Hangs   FaultKind = "hangs"   // the pass in progress takes longer by For, and no pass begins before the end
	Slows   FaultKind = "slow"    // passes take Factor times as long
	Link    FaultKind = "link"    // transfers to decode have the share Factor of their bandwidth
	NoIndex FaultKind = "index"   // the router forgets the caches of workers
	Router  FaultKind = "router"  // the router restarts without knowledge of caches and requests in flight
	Rolling FaultKind = "rolling" // workers are drained and restarted, N at a time
	Role    FaultKind = "role"    // workers are drained and move to the other pool after Back; without Workers, the latest N
)

// FaultKinds returns all kinds of faults.
func FaultKinds() []FaultKind {
	return []FaultKind{Dies, Hangs, Slows, Link, NoIndex, Router, Rolling, Role}
}

// Anywhere means all pools or all zones, and Forever means no end.
const (
	Anywhere          = -1
	Forever  sim.Time = -1
)

// Fault is one fault.
type Fault struct {
	At   sim.Time  `yaml:"at"`
	Kind FaultKind `yaml:"what" is:"kind"`
	// Pool, Zone and Workers select the workers that the fault hits: those in the pool, in the zone and in the list.
	// Anywhere, or an empty list, selects all.
	Pool    int            `yaml:"pool" is:"pool"`
	Zone    int            `yaml:"zone" is:"0..999999"`
	Workers []sim.WorkerID `json:",omitempty" yaml:"worker" is:"worker"`

	For    sim.Time `yaml:"for"`  // duration, or Forever
	Back   sim.Time `yaml:"back"` // time until a worker returns; Forever: never
	Factor float64  `json:",omitempty" yaml:"factor,share" is:"factor"`
	N      int      `json:",omitempty" yaml:"n" is:"1..1000000"`
}

// FaultLaw makes workers die repeatedly. The time until a death has an exponential distribution with the mean
// Between, and the time until the return one with the mean Repair.
type FaultLaw struct {
	Pool    int
	Workers []sim.WorkerID `json:",omitempty"`
	Between sim.Time       `yaml:"mtbf"`
	Repair  sim.Time       `yaml:"mttr"`
}

// Hits reports whether the fault hits a worker of a pool.
func (x *Fault) Hits(f *Faults, pool int, id sim.WorkerID) bool {
	return (x.Pool == Anywhere || x.Pool == pool) && (len(x.Workers) == 0 || slices.Contains(x.Workers, id)) &&
		(x.Zone == Anywhere || f.zoneOf(id) == x.Zone)
}

// zoneOf returns the zone of a worker. The list of zones is repeated for later workers.
func (f *Faults) zoneOf(id sim.WorkerID) int {
	switch {
	case len(f.ZoneOf) > 0:
		return f.ZoneOf[int(id)%len(f.ZoneOf)]
	case f.Zones > 0:
		return int(id) % f.Zones
	}
	return 0
}

// String returns a short description of the fault.
func (x *Fault) String() string {
	whom := x.whom()
	switch x.Kind {
	case Dies:
		return whom + " dies" + ifTime(x.Back, ", back after ")
	case Hangs:
		return whom + " hangs" + ifTime(x.For, " for ")
	case Slows:
		return fmt.Sprintf("%s is %g times as slow%s", whom, x.Factor, ifTime(x.For, " for "))
	case Link:
		return fmt.Sprintf("the link has %g of its bandwidth%s", x.Factor, ifTime(x.For, " for "))
	case NoIndex:
		return "the router loses its KV index"
	case Router:
		return "the router restarts"
	}
	if x.Kind == Role {
		return x.nameMove()
	}
	return fmt.Sprintf("rolling update of %s, %d at a time", whom, x.N)
}

// nameMove describes a change of the role of workers.
func (x *Fault) nameMove() string {
	roles, n := [...]scheduler.Role{scheduler.Prefill, scheduler.Decode}, max(len(x.Workers), 1)
	whom := x.whom()
	if len(x.Workers) == 0 {
		n = x.N
		whom = fmt.Sprintf("the latest %d %v workers", n, roles[x.Pool])
		if n == 1 {
			whom = fmt.Sprintf("the latest %v worker", roles[x.Pool])
		}
	}
	becomes := fmt.Sprintf("become %v workers", roles[1-x.Pool])
	if n == 1 {
		becomes = fmt.Sprintf("becomes a %v worker", roles[1-x.Pool])
	}
	return whom + " " + becomes + ifTime(x.Back, ", there after ")
}

func (x *Fault) whom() string {
	var parts []string
	for _, id := range x.Workers {
		parts = append(parts, fmt.Sprint(id))
	}
	text := "all workers"
	switch {
	case len(parts) == 1:
		text = "worker " + parts[0]
	case len(parts) > 1:
		text = "workers " + strings.Join(parts, ", ")
	}
	if x.Pool != Anywhere { // there are two pools
		role := [...]scheduler.Role{scheduler.Prefill, scheduler.Decode}[x.Pool]
		text = strings.Replace(text, "worker", role.String()+" worker", 1)
	}
	if x.Zone != Anywhere {
		text = fmt.Sprintf("zone %d", x.Zone)
	}
	return text
}

func ifTime(t sim.Time, before string) string {
	if t < 0 {
		return ""
	}
	return before + time.Duration(float64(t)*1e6).Round(time.Microsecond).String()
}

// CheckFaults rejects invalid faults, and faults with effects that are not simulated.
func (t *Topology) CheckFaults() error {
	f := t.Faults
	if f == nil {
		return nil
	}
	for i := range f.Events {
		if err := t.checkFault(&f.Events[i]); err != nil {
			return fmt.Errorf("fault %d: %w", i+1, err)
		}
	}
	for i := range f.Laws {
		l := &f.Laws[i]
		if !(l.Between >= 1) || !(l.Repair >= 0) || math.IsInf(float64(l.Between+l.Repair), 0) {
			return fmt.Errorf("law %d of faults: mtbf %v ms and mttr %v ms, must be at least 1 ms and 0 ms", i+1, float64(l.Between), float64(l.Repair))
		}
		if err := t.checkTargets(l.Pool, l.Workers); err != nil {
			return fmt.Errorf("law %d of faults: %w", i+1, err)
		}
	}
	if f.Limit < 0 || !(f.After >= 0) || math.IsInf(float64(f.After), 0) {
		return fmt.Errorf("requests come back %d times after %v ms, expected both at least 0", f.Limit, float64(f.After))
	}
	if !(f.Detect >= 0) || math.IsInf(float64(f.Detect), 0) {
		return fmt.Errorf("detect is %v ms, must be at least 0", float64(f.Detect))
	}
	if n := len(f.ZoneOf); n > 0 && n != t.Pools[0].Count {
		return fmt.Errorf("zones of %d workers, expected those of %d", n, t.Pools[0].Count)
	}
	return t.checkLoss(f.OnLoss)
}

// MayLose reports whether requests may lose their workers, by faults or by the timeout of drains.
func (t *Topology) MayLose() bool {
	return t.Faults != nil || t.Autoscale != nil && t.Autoscale.Drain > 0 || t.AutoscaleDecode != nil && t.AutoscaleDecode.Drain > 0
}

// checkLoss rejects migration if an engine does not support it.
func (t *Topology) checkLoss(how OnLoss) error {
	if how != MigrateThem {
		return nil
	}
	for i := range t.Pools {
		for _, k := range t.Pools[i].Kinds() {
			if t.Compat && k.Engine.Engine == engineargs.SGLang {
				return errors.New("requests migrate, for which SGLang has no prompts under --compat, must be on_loss: retry or lose")
			}
		}
	}
	return nil
}

func (t *Topology) checkFault(x *Fault) error {
	if !(x.At >= 0) || math.IsInf(float64(x.At), 0) {
		return fmt.Errorf("at is %v ms, must be >= 0", float64(x.At))
	}
	switch {
	case !slices.Contains(FaultKinds(), x.Kind):
		return excerpt.Errorf("%q, must be one of %v", x.Kind, FaultKinds())
	case x.Kind == Slows && !(x.Factor > 0 && x.Factor < math.Inf(1)):
		return fmt.Errorf("factor is %v, must be > 0", x.Factor)
	case x.Kind == Link && !(x.Factor > 0 && x.Factor <= 1):
		return fmt.Errorf("share is %v, must be > 0 and at most 1", x.Factor)
	case x.Kind == Link && !t.Disaggregated():
		return errors.New("a link, requires prefill and decode workers, between which KV caches move")
	case x.Kind == Link && transferOf(&t.Pools[0].Engine) == transferOf(&engineargs.Args{}):
		return errors.New("a link, and handoffs take no time: requires kv_transfer_bandwidth and kv_bytes_per_token")
	case x.Kind == Hangs && !(x.For >= 0):
		return errors.New("a worker hangs, requires a duration")
	case x.Kind == Rolling && x.N < 1:
		return fmt.Errorf("%d workers at a time, must be at least 1", x.N)
	case x.Kind == Role && (!t.Disaggregated() || x.Pool == Anywhere):
		return errors.New("workers that change their role must be prefill or decode workers")
	case x.Kind == Role && x.N < 1:
		return fmt.Errorf("workers that change their role are %d, must be at least 1", x.N)
	case x.Kind == Role && t.Autoscales():
		return errors.New("workers that change their role, which an autoscaler of their pools would undo: must be without one")
	}
	if err := t.checkZone(x.Zone); err != nil {
		return err
	}
	return t.checkTargets(x.Pool, x.Workers)
}

// checkZone rejects a zone that does not exist.
func (t *Topology) checkZone(zone int) error {
	f := t.Faults
	switch {
	case zone == Anywhere || zone >= 0 && zone < f.Zones || slices.Contains(f.ZoneOf, zone):
		return nil
	case f.Zones == 0 && len(f.ZoneOf) == 0:
		return fmt.Errorf("zone %d, and the workers are in none, requires zones", zone)
	}
	return fmt.Errorf("zone %d, expected one that has workers", zone)
}

// checkTargets rejects workers that do not exist.
func (t *Topology) checkTargets(pool int, workers []sim.WorkerID) error {
	if len(t.Scale) > 0 || t.Autoscales() {
		return nil // the number of workers is known later
	}
	least := math.MaxInt
	for i := range t.Pools {
		if pool == Anywhere || pool == i {
			least = min(least, t.Pools[i].Count)
		}
	}
	for _, id := range workers {
		if id < 0 || int(id) >= least {
			return fmt.Errorf("worker %d, must be 0 to %d", id, least-1)
		}
	}
	return nil
}
