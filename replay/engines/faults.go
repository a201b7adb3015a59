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

// Faults are the faults of a cluster, and what happens to the requests that they hit.
type Faults struct {
	Events []Fault    `yaml:"faults" is:"faults"`
	Laws   []FaultLaw `json:",omitempty"`

	OnLoss OnLoss `yaml:"on_loss" is:"loss"`
	// Limit is how often a request is begun again or continues elsewhere; after that it is lost.
	Limit int `yaml:"limit" is:"0..1000000"`
	// After is how long a request takes to come back to the router.
	After sim.Time `yaml:"after"`
	// Detect is how long the router takes to notice that a worker has died; until then it sends requests there.
	Detect sim.Time `json:",omitempty" yaml:"detect"`
	// Zones is the number of zones, over which the workers of each pool are dealt out in the
	// order of their ids; ZoneOf, in its place, has the zone of each worker of the only pool.
	Zones  int   `json:",omitempty" yaml:"zones" is:"zones"`
	ZoneOf []int `json:",omitempty"`
}

// OnLoss is what happens to the requests of a worker that dies.
type OnLoss string

const (
	LoseThem    OnLoss = "lose"    // they fail
	RetryThem   OnLoss = "retry"   // they begin again from their prompts
	MigrateThem OnLoss = "migrate" // they continue elsewhere, with the tokens that they have as a part of their prompts
)

// DefaultLimit is how often a request comes back where nothing is said.
const DefaultLimit = 3

// FaultKind is the kind of a fault.
type FaultKind string

const (
	Dies    FaultKind = "dies"    // with its cache and its requests; it comes back, empty, after Back
	Hangs   FaultKind = "hangs"   // for a while: its pass ends that much later, and no other begins
	Slows   FaultKind = "slow"    // for a while passes take Factor times as long
	Link    FaultKind = "link"    // for a while transfers to decode have a share, Factor, of their bandwidth
	NoIndex FaultKind = "index"   // the router forgets what the workers have cached
	Router  FaultKind = "router"  // the router begins anew: it knows of no cache and of no request in flight
	Rolling FaultKind = "rolling" // workers are drained and restarted, N at a time
	Role    FaultKind = "role"    // workers are drained and serve in the other pool after Back; without Workers the latest N
)

// FaultKinds returns all of them.
func FaultKinds() []FaultKind {
	return []FaultKind{Dies, Hangs, Slows, Link, NoIndex, Router, Rolling, Role}
}

// Anywhere is no pool and no zone in particular, and Forever no end.
const (
	Anywhere          = -1
	Forever  sim.Time = -1
)

// Fault is one event.
type Fault struct {
	At   sim.Time  `yaml:"at"`
	Kind FaultKind `yaml:"what" is:"kind"`
	// Pool, Zone and Workers are what it hits: all workers that are in the pool, in the zone and in the list. Anywhere, or no
	// workers, leaves one of them open.
	Pool    int            `yaml:"pool" is:"pool"`
	Zone    int            `yaml:"zone" is:"0..999999"`
	Workers []sim.WorkerID `json:",omitempty" yaml:"worker" is:"worker"`

	For    sim.Time `yaml:"for"`  // how long it lasts; Forever
	Back   sim.Time `yaml:"back"` // after which a worker is there again; Forever: never
	Factor float64  `json:",omitempty" yaml:"factor,share" is:"factor"`
	N      int      `json:",omitempty" yaml:"n" is:"1..1000000"`
}

// FaultLaw lets workers die again and again: after times of a mean Between while they
// work, drawn from an exponential law; they come back after times of a mean Repair.
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

// zoneOf returns the zone of a worker. A list of zones is repeated for later workers.
func (f *Faults) zoneOf(id sim.WorkerID) int {
	switch {
	case len(f.ZoneOf) > 0:
		return f.ZoneOf[int(id)%len(f.ZoneOf)]
	case f.Zones > 0:
		return int(id) % f.Zones
	}
	return 0
}

// String describes the fault in a few words.
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

// nameMove returns which workers change their role, in words.
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
	if x.Pool != Anywhere { // there are two, then
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

// CheckFaults rejects faults that cannot happen, and faults with effects that are not simulated.
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

// MayLose reports whether requests may lose their workers: by faults, or because drains have a timeout.
func (t *Topology) MayLose() bool {
	return t.Faults != nil || t.Autoscale != nil && t.Autoscale.Drain > 0 || t.AutoscaleDecode != nil && t.AutoscaleDecode.Drain > 0
}

// checkLoss refuses to let requests migrate where an engine cannot.
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

// checkZone refuses a zone that is not there.
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

// checkTargets refuses workers that are not there.
func (t *Topology) checkTargets(pool int, workers []sim.WorkerID) error {
	if len(t.Scale) > 0 || t.Autoscales() {
		return nil // the workers are known then
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
