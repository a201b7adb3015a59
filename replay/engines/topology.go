package engines

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/sim"
)

// Topology is the cluster of a replay: its pools of workers, and the path of requests to them. The command line sets
// the topology and the cores read it.
type Topology struct {
	// Pools are either one aggregated pool, or a prefill pool and a decode pool in this order.
	Pools Pools `record:"inline"`

	// Router is the router policy of every pool; nil: the default policy.
	Router policy.Choice `record:"inline"`
	// Admission decides on requests before the router of the entry pool; nil: all requests are routed.
	Admission *policy.Admission
	// Signals are the ages of the signals that routers and admission read. Signals override the ages in a
	// policy.Text.
	Signals router.Signals
	// PrefillLoad names the external estimator of the KV router's prefill load
	// model; the zero value: none.
	PrefillLoad engineargs.AIC

	// Scale changes the sizes of the pools during the replay, in order of time.
	Scale []ScaleEvent
	// WorkerSpeeds are the speeds of workers relative to their engine, by pool and worker. Passes at speed 0.5 take
	// twice as long. A pool without speeds has the speed 1.
	WorkerSpeeds [][]float64

	// FrontEnd is the time between clients and the router of the entry pool. If FrontEnd is nil and pass times are by
	// measured operators, the time of the measured engine applies; otherwise there is none.
	FrontEnd *silicon.FrontEnd

	// Faults are the faults during the replay; nil: none.
	Faults *Faults

	// Client is the retry and timeout rules of clients; nil: each client sends its request once, and
	// waits.
	Client *Client
	// PD is the division of work between prefill and decode workers. If PD is nil, every prompt goes to a prefill
	// worker, and transfers share no link.
	PD *PD

	// Autoscale changes the number of workers of the entry pool by their metrics, and AutoscaleDecode that of the
	// decode pool; nil: the number is fixed.
	Autoscale, AutoscaleDecode *autoscale.Config

	// Changes are changes of the cluster during the run, in order of time.
	Changes []Change
	// Possible is the changes that copies of a replay support (offline.Fork). Preparing for possible changes does not
	// affect any result.
	Possible []Change `record:"-"`

	// PreemptedApart counts the cached tokens of a readmitted request separately from prefix cache hits, as vLLM
	// does. The reference counts these tokens as hits.
	PreemptedApart bool `record:"-"`

	Compat bool   // reproduce errors of the reference (docs/differences.md)
	Seed   uint64 // seed of all random numbers
}

// Pool is workers with the same engine, or a mix of kinds of workers.
type Pool struct {
	Role   scheduler.Role
	Engine engineargs.Args // of all workers; in a mix, of the first kind
	Count  int             // initial number of workers, at least 1
	Mix    []Kind          // kinds of workers, in order of their ids; nil if all are equal
}

// Pools is the pools of a cluster.
type Pools []Pool

// Recorded returns the pools by their names, for run directories.
func (all Pools) Recorded() any {
	r := struct {
		Aggregated, Prefill, Decode            *engineargs.Args
		Workers, PrefillWorkers, DecodeWorkers int    // 1 if the pool does not exist
		Mix                                    []Kind // instead of Aggregated
	}{Workers: 1, PrefillWorkers: 1, DecodeWorkers: 1}
	for i := range all {
		switch p := &all[i]; p.Role {
		case scheduler.Prefill:
			r.Prefill, r.PrefillWorkers = &p.Engine, p.Count
		case scheduler.Decode:
			r.Decode, r.DecodeWorkers = &p.Engine, p.Count
		default:
			r.Workers, r.Mix = p.Count, p.Mix
			if len(p.Mix) == 0 {
				r.Aggregated = &p.Engine
			}
		}
	}
	return r
}

// maxWorkers is the maximum size of a pool. Even an idle worker takes some memory.
const maxWorkers = 1_000_000

// maxRanks is the maximum number of data-parallel ranks of a worker.
const maxRanks = 1024

// ScaleEvent changes the sizes of the pools at an instant.
type ScaleEvent struct {
	At sim.Time
	// Workers is the new size of the entry pool (aggregated or prefill), and Decode that of the decode pool. KeepSize
	// keeps the size of a pool.
	Workers, Decode int
}

// KeepSize keeps the size of a pool.
const KeepSize = -1

// OnePool returns a cluster of aggregated workers.
func OnePool(engine engineargs.Args, workers int) []Pool {
	return []Pool{{Role: scheduler.Aggregated, Engine: engine, Count: workers}}
}

// TwoPools returns a cluster of a prefill pool and a decode pool. TwoPools sets the roles of both pools.
func TwoPools(prefill, decode Pool) []Pool {
	prefill.Role, decode.Role = scheduler.Prefill, scheduler.Decode
	return []Pool{prefill, decode}
}

// Disaggregated reports whether prefill and decode have separate workers.
func (t *Topology) Disaggregated() bool { return len(t.Pools) > 1 }

// Entry returns the pool where requests arrive.
func (t *Topology) Entry() *Pool { return &t.Pools[0] }

// Resize returns t with new sizes of its pools. Different kinds and speeds of workers are repeated as necessary.
func (t Topology) Resize(counts ...int) Topology {
	t.Pools = slices.Clone(t.Pools)
	for i := range t.Pools {
		t.Pools[i] = t.Pools[i].resize(counts[i])
	}
	t.WorkerSpeeds = slices.Clone(t.WorkerSpeeds)
	for i, speeds := range t.WorkerSpeeds {
		if len(speeds) > 0 {
			t.WorkerSpeeds[i] = slices.Repeat(speeds, (counts[i]+len(speeds)-1)/len(speeds))[:counts[i]]
		}
	}
	return t
}

// WithEngines returns t with its engines changed by a function.
func (t Topology) WithEngines(change func(*engineargs.Args)) Topology {
	t.Pools = slices.Clone(t.Pools)
	for i := range t.Pools {
		t.Pools[i] = t.Pools[i].changeEngines(change)
	}
	return t
}

// Validate returns an error for a cluster that cannot run.
func (t *Topology) Validate() error {
	for _, check := range []func() error{t.checkPrefillLoad, t.checkPools, t.CheckScale, t.CheckAutoscale, t.checkSpeeds, t.CheckFaults, t.CheckClient, t.checkText, t.CheckChanges, t.CheckPD} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkPrefillLoad rejects an estimator that no policy uses, and a policy without its estimator.
func (t *Topology) checkPrefillLoad() error {
	estimator := t.PrefillLoad != engineargs.AIC{}
	kv := t.Choice().Info().Caches
	c, configured := t.Router.(*policy.Configured)
	asked := kv && configured && c.Config.PrefillLoadModel == router.LoadAIC
	switch {
	case estimator && !kv:
		return errors.New("an AIC estimator of prefill load, requires the KV router")
	case estimator && !asked:
		return errors.New(`an AIC estimator of prefill load, must be a router configuration with router_prefill_load_model "aic"`)
	case asked && !estimator:
		return errors.New(`router_prefill_load_model is "aic", requires the AIC backend, system and model path`)
	case asked:
		return errors.New(`router_prefill_load_model is "aic": this program holds no AIC estimator, expected "none"`)
	}
	return nil
}

// checkPools rejects combinations of pools that are not a cluster.
func (t *Topology) checkPools() error {
	var roles []scheduler.Role
	for i := range t.Pools {
		roles = append(roles, t.Pools[i].Role)
	}
	if !slices.Equal(roles, []scheduler.Role{scheduler.Aggregated}) && !slices.Equal(roles, []scheduler.Role{scheduler.Prefill, scheduler.Decode}) {
		return fmt.Errorf("pools are %v, must be one aggregated, or prefill and decode", roles)
	}
	for _, check := range []func(*Pool) error{(*Pool).checkCount, (*Pool).checkRole, t.checkDPSize, t.checkChunks} {
		for i := range t.Pools {
			if err := t.Pools[i].checkKinds(check); err != nil {
				return err
			}
		}
	}
	if t.Disaggregated() && t.Pools[0].Engine.BlockTokens != t.Pools[1].Engine.BlockTokens {
		return fmt.Errorf("block_size is %d for prefill and %d for decode engines, must be the same",
			t.Pools[0].Engine.BlockTokens, t.Pools[1].Engine.BlockTokens)
	}
	for i := range t.Pools {
		if err := t.Pools[i].checkKinds((*Pool).CheckEngine); err != nil {
			return err
		}
	}
	return t.checkMixes()
}

// nameOf adds the name of the pool to an error, if there are two pools.
func (p *Pool) nameOf(what string) string {
	if p.Role == scheduler.Aggregated {
		return what
	}
	return p.Role.String() + " " + what
}

func (p *Pool) checkCount() error {
	if name := p.nameOf("workers"); p.Count < 1 {
		return fmt.Errorf("%s are %d, must be at least 1", name, p.Count)
	} else if p.Count > maxWorkers {
		return fmt.Errorf("%s are %d, must be 1 to %d", name, p.Count, maxWorkers)
	}
	return nil
}

func (p *Pool) checkRole() error {
	switch {
	case p.Engine.Role == p.Role:
		return nil
	case p.Role == scheduler.Aggregated:
		return excerpt.Errorf("worker_type is %q, must be %q in a cluster of one pool", p.Engine.Role, p.Role)
	}
	return excerpt.Errorf("%s engine arguments: worker_type is %q, must be %q", p.Role, p.Engine.Role, p.Role)
}

// checkDPSize rejects ranks of an engine that supports none.
func (t *Topology) checkDPSize(p *Pool) error {
	want, ranks := "1", !p.Engine.Rules.Reference() || p.Engine.Engine != engineargs.VLLM && !t.Compat
	switch {
	case p.Engine.DPSize == 1, p.Engine.DPSize <= maxRanks && ranks:
		return nil
	case ranks:
		want = fmt.Sprintf("at most %d", maxRanks)
	}
	if p.Role == scheduler.Aggregated {
		return fmt.Errorf("dp_size is %d, must be %s", p.Engine.DPSize, want)
	}
	return fmt.Errorf("%s engine arguments: dp_size is %d, must be %s", p.Role, p.Engine.DPSize, want)
}

// CheckEngine returns an error for an engine that cannot be built.
func (p *Pool) CheckEngine() error {
	n := p.Engine.BlockTokens
	if p.Engine.Engine == engineargs.VLLM && (n < 2 || n > 1024 || n&(n-1) != 0) {
		return fmt.Errorf("block_size is %d, must be a power of two from 2 to 1024 for vllm", n)
	}
	if backend := p.Engine.AIC.Backend; backend != "" {
		return excerpt.Errorf("aic_backend is %q: this program has no AIC estimator, use planner_profile_data or neither", backend)
	}
	return nil
}

// CheckScale returns an error for invalid scale events.
func (t *Topology) CheckScale() error {
	last := sim.Time(0)
	for _, e := range t.Scale {
		switch {
		case !(e.At >= last) || e.At >= math.MaxFloat64:
			return fmt.Errorf("scaling at %v ms: expected instants >= 0 in order", float64(e.At))
		case e.Workers < KeepSize || e.Workers == 0 || e.Decode < KeepSize || e.Decode == 0:
			return fmt.Errorf("scaling at %v ms: to %d and %d workers, must be at least 1", float64(e.At), e.Workers, e.Decode)
		case e.Decode != KeepSize && !t.Disaggregated():
			return fmt.Errorf("scaling at %v ms: decode workers require prefill and decode pools", float64(e.At))
		}
		last = e.At
	}
	return nil
}

// AutoscalerOf returns the autoscaler of a pool, nil if it has none.
func (t *Topology) AutoscalerOf(pool int) *autoscale.Config {
	return [...]*autoscale.Config{t.Autoscale, t.AutoscaleDecode}[pool]
}

// Autoscales reports whether a pool has an autoscaler.
func (t *Topology) Autoscales() bool { return t.Autoscale != nil || t.AutoscaleDecode != nil }

// CheckAutoscale returns an error for an autoscaler that is invalid, or not supported for the cluster.
func (t *Topology) CheckAutoscale() error {
	switch {
	case !t.Autoscales():
		return nil
	case t.AutoscaleDecode != nil && !t.Disaggregated():
		return errors.New("an autoscaler of decode workers, requires prefill and decode pools")
	}
	for i := range t.Pools {
		p, a := &t.Pools[i], t.AutoscalerOf(i)
		if a == nil {
			continue
		}
		if err := a.Check(); err != nil {
			return fmt.Errorf("%s: %w", p.nameOf("autoscaler"), err)
		}
		if err := t.checkLoss(OnLoss(a.OnKill)); err != nil {
			return fmt.Errorf("%s: drain: %w", p.nameOf("autoscaler"), err)
		}
		if other := t.AutoscalerOf(1 - i); a.Kind == autoscale.ByRatio && (other == nil || other.Kind == autoscale.ByRatio) {
			return fmt.Errorf("%s is a ratio, which requires an autoscaler of the other pool, of another kind", p.nameOf("autoscaler"))
		}
		if p.Count < a.Min || p.Count > a.Max {
			return fmt.Errorf("%s are %d, must be %d to %d, as the autoscaler has them", p.nameOf("workers"), p.Count, a.Min, a.Max)
		}
	}
	return t.checkNewKind()
}

// Warnings returns warnings about settings with an unexpected effect.
func (t *Topology) Warnings() []string {
	var all []string
	if t.PD == nil && t.Faults != nil && t.withoutFaults().CanPull() {
		all = append(all, "faults: KV caches are handed to decode workers by the reference's rules, since pulls are not supported with faults: compare with a run that has --kv-transfer all")
	}
	for i := range t.Pools {
		p := &t.Pools[i]
		for _, k := range p.Kinds() {
			name := ""
			if p.Role != scheduler.Aggregated {
				name = p.nameOf("workers: ")
			} else if k.Name != "" {
				name = k.Name + ": "
			}
			if t.Compat && k.Engine.G2.Asked() {
				key, value := k.Engine.G2.Key()
				all = append(all, fmt.Sprintf("%s%s is %s: nothing is offloaded, as in the reference's release", name, key, value))
				k.Engine.G2.Blocks, k.Engine.G2.GiB = 0, 0
			}
			for _, w := range slices.Concat(k.Engine.Warnings(), profileWarnings(&k.Engine), nodeWarnings(&k.Engine)) {
				all = append(all, name+w)
			}
		}
	}
	return all
}

// withoutFaults returns t without its faults.
func (t *Topology) withoutFaults() *Topology {
	sound := *t
	sound.Faults = nil
	return &sound
}

// ByRole has a value for each role of a pool: aggregated, prefill and decode.
type ByRole[T any] [3]T

// JoinPools returns the pools of a command line. Counts are 1 and engines nil for pools that the command line does
// not name. An ambiguous command line is rejected.
func JoinPools(counts ByRole[int], engines ByRole[*engineargs.Args]) (Pools, error) {
	for role, count := range counts {
		if p := (Pool{Role: scheduler.Role(role)}); count < 0 || count > maxWorkers {
			return nil, fmt.Errorf("%s are %d, must be 1 to %d", p.nameOf("workers"), count, maxWorkers)
		}
	}
	workers, prefillWorkers, decodeWorkers := counts[scheduler.Aggregated], counts[scheduler.Prefill], counts[scheduler.Decode]
	one, prefill, decode := engines[scheduler.Aggregated], engines[scheduler.Prefill], engines[scheduler.Decode]
	switch {
	case one != nil && (prefill != nil || decode != nil):
		return nil, errors.New("engine arguments and prefill or decode engine arguments are mutually exclusive")
	case prefill == nil && decode == nil && (prefillWorkers != 1 || decodeWorkers != 1):
		return nil, fmt.Errorf("%d prefill and %d decode workers without engine arguments, require both prefill and decode engine arguments",
			prefillWorkers, decodeWorkers)
	case prefill != nil && decode != nil && workers != 1:
		return nil, fmt.Errorf("workers are %d with prefill and decode engine arguments: use numbers of prefill and decode workers only", workers)
	case prefill == nil && decode != nil:
		return nil, errors.New("decode engine arguments require prefill engine arguments")
	case prefill != nil && decode == nil:
		return nil, errors.New("prefill engine arguments require decode engine arguments")
	case prefill != nil:
		return TwoPools(Pool{Engine: *prefill, Count: prefillWorkers}, Pool{Engine: *decode, Count: decodeWorkers}), nil
	case one != nil:
		return OnePool(*one, workers), nil
	}
	return OnePool(engineargs.Default(), workers), nil
}

// FollowsCaches reports whether the router, or a later router, reads the caches of workers.
func (t *Topology) FollowsCaches() bool {
	for _, c := range t.Later() {
		after := t.With(&c)
		after.Changes, after.Possible = nil, nil
		if c.Reroutes() && after.FollowsCaches() {
			return true
		}
	}
	return t.Admission != nil && t.Admission.FollowsCaches() || t.Choice().FollowsCaches()
}

// Choice returns Router, or the default policy if it is nil.
func (t *Topology) Choice() policy.Choice {
	if t.Router == nil {
		return policy.Name("")
	}
	return t.Router
}
