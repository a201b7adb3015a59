package autoscale

import (
	"fmt"
	"sort"

	"github.com/replay-llm/replay/sim"
)

// Foreseen is a load to come: a number of requests from each instant on.
type Foreseen struct {
	at   []sim.Time // in order
	most [][]int    // most[k][i] is the most of the 1<<k pieces from i on
}

// NewForeseen returns the load of requests that are there from one instant to another each.
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

// Most returns the most requests that are there at once from one instant to another.
func (f *Foreseen) Most(from, to sim.Time) int {
	first := max(sort.Search(len(f.at), func(i int) bool { return f.at[i] > from })-1, 0)
	end := max(sort.Search(len(f.at), func(i int) bool { return f.at[i] > to }), first+1)
	k := 0
	for 2<<k <= end-first {
		k++
	}
	return max(f.most[k][first], f.most[k][end-(1<<k)])
}

// perfect knows the load to come (docs/autoscaling.md, Perfect).
type perfect struct {
	c     *Config
	load  *Foreseen
	ahead sim.Time
	reason
}

// NewPerfect returns a scaler that starts workers in time for the load to come. startup is how long
// a worker takes to start where c has no ladder.
func NewPerfect(c *Config, load *Foreseen, startup sim.Time) Scaler {
	if !c.Startup.IsEmpty() {
		startup = c.Startup.Most()
	}
	return &perfect{c: c, load: load, ahead: startup}
}

// Begin returns how many workers a perfect scaler begins with: as many as it wants at the start.
func Begin(c *Config, load *Foreseen, startup sim.Time) int {
	return min(max(NewPerfect(c, load, startup).Want(&Signals{}), c.Min), c.Max)
}

// Want returns the number of workers for the most that will be there at once until a worker that
// is asked for at the next tick has started.
func (p *perfect) Want(s *Signals) int {
	to := s.Now + p.c.Sync + p.ahead
	most := p.load.Most(s.Now, to)
	n := p.c.Load.workersFor(float64(most), p.c.Load.InFlight)
	p.why = fmt.Sprintf("at most %d requests at once until %gs, %.4g a worker: %d", most, float64(to)/1000, p.c.Load.InFlight, n)
	return n
}
