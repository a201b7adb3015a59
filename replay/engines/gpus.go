package engines

import (
	"slices"
	"strings"

	"github.com/replay-llm/replay/scheduler/timing"
)

// GPUs are those of a cluster.
type GPUs struct {
	Count int
	Name  string  // of all kinds of them, "" where nothing says which they are
	Price float64 // of all of them for an hour by default, 0 where one of them has none
}

// GPUs returns those of all workers at the start.
func (t *Topology) GPUs() (GPUs, error) {
	var all GPUs
	var names []string
	priced := true
	for i := range t.Pools {
		for _, k := range t.Pools[i].Kinds() {
			each, price, err := timing.GPUs(k.Engine.ProfilePath)
			if err != nil {
				return all, err
			}
			all.Count += k.Count * each
			all.Price += float64(float64(k.Count*each) * price)
			priced = priced && price > 0
			if name := timing.GPUName(k.Engine.ProfilePath); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if !priced {
		all.Price = 0
	}
	all.Name = strings.Join(names, " ")
	return all, nil
}
