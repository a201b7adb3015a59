package engines

import (
	"fmt"
	"slices"
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
)

// describeLosses describes losses: the lost workers, and the remaining workers.
func describeLosses(all []Loss) []string {
	var lines []string
	for _, x := range all {
		line := x.Name
		if x.Left != nil {
			line += ":"
			for i := range x.Left.Pools {
				p := &x.Left.Pools[i]
				line += fmt.Sprintf(" %d", p.Count)
				for _, k := range p.Mix {
					line += fmt.Sprintf(" %s=%d", k.Name, k.Count)
				}
				if i < len(x.Left.WorkerSpeeds) {
					line += fmt.Sprint(" ", x.Left.WorkerSpeeds[i])
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// TestLosses checks that equal workers are interchangeable, and that an empty pool is reported.
func TestLosses(t *testing.T) {
	fast, slow := engineargs.Default(), engineargs.Default()
	slow.Blocks = 5
	plain := Topology{Pools: OnePool(fast, 5)}
	mixed := Topology{Pools: []Pool{Mix([]Kind{{"a", fast, 2}, {"b", slow, 1}})}, WorkerSpeeds: [][]float64{{1, 0.5, 1}}}
	two := Topology{Pools: []Pool{{Role: scheduler.Prefill, Engine: fast, Count: 1}, {Role: scheduler.Decode, Engine: fast, Count: 3}}}
	for _, c := range []struct {
		got  []Loss
		want []string
	}{
		{plain.AnyGone(1), []string{"1 worker: 4"}},
		{plain.AnyGone(5), []string{"5 workers, no worker is left"}},
		{plain.AnyGone(6), nil},
		{plain.ZoneGone(3), []string{"zone 0 of 3, 2 workers: 3", "zone 2 of 3, 1 worker: 4"}},
		{mixed.AnyGone(1), []string{"1 worker (a): 2 a=1 b=1 [0.5 1]", "1 worker (a): 2 a=1 b=1 [1 1]", "1 worker (b): 2 [1 0.5]"}},
		{two.AnyGone(1), []string{"1 prefill worker, no worker is left", "1 decode worker: 1 2"}},
		{two.AnyGone(2), []string{"1 prefill worker, no worker is left", "2 decode workers: 1 1"}},
	} {
		if got := describeLosses(c.got); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if plain.Pools[0].Count != 5 || len(mixed.WorkerSpeeds[0]) != 3 || mixed.Pools[0].Mix[0].Count != 2 {
		t.Error("the cluster itself has changed")
	}
}
