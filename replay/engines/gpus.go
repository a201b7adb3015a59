package engines

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/autoscale/planner"
)

// GPUs is the GPUs of a cluster.
type GPUs struct {
	Count int
	Name  string  // names of all kinds of GPUs, "" if unknown
	Price float64 // default price of all GPUs per hour, 0 if the price of one is unknown
}

// Rent is the GPUs of a worker, and their cost per hour; 0: unknown.
type Rent struct {
	GPUs    int
	PerHour float64
}

// Rent returns the rent of a worker: the price of a GPU times the number of its GPUs. If gpuPrice is 0, Rent uses the
// default price of the GPU.
func (k *Kind) Rent(gpuPrice float64) (Rent, error) {
	gpus, price, err := k.Engine.PassTimes.GPUs()
	if gpuPrice > 0 {
		price = gpuPrice
	}
	return Rent{gpus, float64(gpus) * price}, err
}

// Rents returns the rent of a worker of each kind of the pool.
func (p *Pool) Rents(gpuPrice float64) ([]Rent, error) {
	var all []Rent
	for _, k := range p.Kinds() {
		rent, err := k.Rent(gpuPrice)
		if err != nil {
			return nil, err
		}
		all = append(all, rent)
	}
	return all, nil
}

// Seen returns the facts that an autoscaler may know about the workers of the pool. In a mix, the facts are those of
// the first kind.
func (p *Pool) Seen() (autoscale.Workers, error) {
	k := p.Kinds()[0]
	rent, err := k.Rent(0)
	a := &k.Engine
	return autoscale.Workers{Role: p.Role, Engine: planner.Engine{
		GPUs: rent.GPUs, MaxBatchedTokens: a.MaxBatchedTokens, MaxSeqs: a.MaxSeqs, ContextLength: a.MaxLength, KVTokens: a.Blocks * a.BlockTokens,
	}}, err
}

// NewPlanners returns the scaler of each pool that has Dynamo's planner, nil for all other pools.
func (t *Topology) NewPlanners() (all [2]autoscale.Scaler, err error) {
	var seen [2]autoscale.Workers
	var configs [2]*autoscale.Config
	for i := range t.Pools {
		a := t.AutoscalerOf(i)
		if a == nil || a.Kind != autoscale.DynamoPlanner {
			continue
		}
		configs[i] = a
		if seen[i], err = t.Pools[i].Seen(); err != nil {
			return all, err
		}
	}
	p, d := configs[0], configs[1]
	if p != nil && d != nil && p.Planner.Plans(planner.Disagg) && d.Planner.Plans(planner.Disagg) {
		if !reflect.DeepEqual(p.Planner, d.Planner) || p.Sync != d.Sync {
			return all, errors.New("the settings of scaler: dynamo-planner of both pools differ, must be the same where it plans both (mode: prefill and mode: decode plan each by itself)")
		}
		return autoscale.NewDynamoPair(p, seen[0], seen[1])
	}
	for i, a := range configs {
		if a == nil {
			continue
		}
		if a.Planner.Mode == planner.Disagg {
			return all, errors.New("mode: disagg of scaler: dynamo-planner requires it for the prefill and the decode pool")
		}
		if all[i], err = autoscale.NewDynamo(a, seen[i]); err != nil {
			return all, err
		}
	}
	return all, nil
}

// GPUs returns the GPUs of all initial workers.
func (t *Topology) GPUs() (GPUs, error) {
	var kinds []Kind
	for i := range t.Pools {
		kinds = append(kinds, t.Pools[i].Kinds()...)
	}
	return sumGPUs(kinds)
}

// OwnGPUs returns the GPUs of the initial workers of the pool.
func (p *Pool) OwnGPUs() (GPUs, error) { return sumGPUs(p.Kinds()) }

func sumGPUs(kinds []Kind) (GPUs, error) {
	var all GPUs
	var names []string
	priced := true
	for _, k := range kinds {
		rent, err := k.Rent(0)
		if err != nil {
			return all, err
		}
		all.Count += k.Count * rent.GPUs
		all.Price += float64(float64(k.Count) * rent.PerHour)
		priced = priced && rent.PerHour > 0
		if name, _ := k.Engine.PassTimes.Names(); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if !priced {
		all.Price = 0
	}
	all.Name = strings.Join(names, " ")
	return all, nil
}
