package autoscale

import (
	"fmt"
	"sort"

	"github.com/replay-llm/replay/sim"
)

// Foreseen is a future load: the number of requests from each instant on.
type Foreseen struct {
	at   []sim.Time // ascending
	most [][]int    // most[k][i] is the maximum of the 1<<k intervals from i on
}

// NewForeseen returns the load of requests, given the start and end of each.
func NewForeseen(stays [][2]sim.Time) *Foreseen {
	type change struct {
		at sim.Time
		by int
	}
	var all []change
	for _, s := range stays {
		all = append(all, change{s[0], 1}, change{s[1], -1})
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].at < all[j].at || all[i].at == all[j].at && all[i].by < all[j].by
	})
	f := &Foreseen{at: []sim.Time{0}}
	row, n := []int{0}, 0
	for _, c := range all {
		n += c.by
		if last := len(f.at) - 1; f.at[last] == c.at {
			row[last] = n
			continue
		}
		f.at, row = append(f.at, c.at), append(row, n)
	}
	f.most = [][]int{row}
	for width := 1; 2*width <= len(row); width *= 2 {
		below := f.most[len(f.most)-1]
		next := make([]int, len(row)-2*width+1)
		for i := range next {
			next[i] = max(below[i], below[i+width])
		}
		f.most = append(f.most, next)
	}
	return f
}

// Most returns the maximum number of requests at the same time between two instants.
func (f *Foreseen) Most(from, to sim.Time) int {
	first := max(sort.Search(len(f.at), func(i int) bool { return f.at[i] > from })-1, 0)
	end := max(sort.Search(len(f.at), func(i int) bool { return f.at[i] > to }), first+1)
	k := 0
	for 2<<k <= end-first {
		k++
	}
	return max(f.most[k][first], f.most[k][end-(1<<k)])
}

// perfect is a scaler that knows the future load (docs/autoscaling.md, Perfect).
type perfect struct {
	c     *Config
	load  *Foreseen
	ahead sim.Time
	reason
}

// NewPerfect returns a scaler that starts workers in time for the future load. startup is the startup time of a
// worker if c has no Startup.
func NewPerfect(c *Config, load *Foreseen, startup sim.Time) Scaler {
	if !c.Startup.IsEmpty() {
		startup = c.Startup.Most()
	}
	return &perfect{c: c, load: load, ahead: startup}
}

// Begin returns the initial number of workers of a perfect scaler.
func Begin(c *Config, load *Foreseen, startup sim.Time) int {
	return min(max(NewPerfect(c, load, startup).Want(&Signals{}), c.Min), c.Max)
}

// Want returns the number of workers for the maximum load until a worker requested at the next tick has started.
func (p *perfect) Want(s *Signals) int {
	to := s.Now + p.c.Sync + p.ahead
	most := p.load.Most(s.Now, to)
	n := p.c.Load.workersFor(float64(most), p.c.Load.InFlight)
	p.why = fmt.Sprintf("at most %d requests at once until %gs, %.4g a worker: %d", most, float64(to)/1000, p.c.Load.InFlight, n)
	return n
}
