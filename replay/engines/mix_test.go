package engines

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
)

// mixOf returns a pool of workers with one H100 and workers with two L40S.
func mixOf(h100, l40s int) Pool {
	kind := func(name, path string, count int) Kind {
		a := engineargs.Default()
		a.PassTimes = timing.ParseSource("roofline:" + path)
		return Kind{Name: name, Engine: a, Count: count}
	}
	return Mix([]Kind{kind("h100", "h100/llama-3.1-8b", h100), kind("l40s", "l40s/llama-3.1-8b?tp=2", l40s)})
}

// TestResizeMix checks that a resized mix repeats the mix and takes the remaining workers from its kinds in order. A
// mix of a single kind is a plain pool.
func TestResizeMix(t *testing.T) {
	top := Topology{Pools: []Pool{mixOf(1, 2)}}
	for size, want := range map[int]string{1: "", 2: "1 of h100, 1 of l40s", 3: "1 of h100, 2 of l40s", 4: "2 of h100, 2 of l40s", 7: "3 of h100, 4 of l40s"} {
		other := top.Resize(size)
		if got := other.Entry().DescribeKinds(); got != want || other.Entry().Count != size {
			t.Errorf("%d workers: %d, %q, want %q", size, other.Entry().Count, got, want)
		}
	}
	if top.Entry().DescribeKinds() != "1 of h100, 2 of l40s" {
		t.Errorf("the original is %+v", top.Entry())
	}
	if zero := top.Resize(0); zero.Validate() == nil {
		t.Error("no workers are a cluster")
	}
}

// TestGPUsOfMix checks the GPUs of each kind and their cost.
func TestGPUsOfMix(t *testing.T) {
	top := Topology{Pools: []Pool{mixOf(3, 4)}}
	all, err := top.GPUs()
	if err != nil || all.Count != 3+2*4 || all.Name != "h100 l40s" {
		t.Fatalf("%+v, %v", all, err)
	}
	_, h100, _ := timing.ParseSource("roofline:h100/llama-3.1-8b").GPUs()
	_, l40s, _ := timing.ParseSource("roofline:l40s/llama-3.1-8b").GPUs()
	if want := 3*h100 + 8*l40s; all.Price < want-1e-9 || all.Price > want+1e-9 || h100 == l40s {
		t.Errorf("they cost %v an hour, want %v", all.Price, want)
	}
}

// TestMixWithEngines checks that the engine of every kind is changed.
func TestMixWithEngines(t *testing.T) {
	top := Topology{Pools: []Pool{mixOf(1, 1)}}
	slow := top.WithEngines(func(a *engineargs.Args) { a.Speedup = 0.5 })
	for i, k := range slow.Pools[0].Mix {
		if k.Engine.Speedup != 0.5 || top.Pools[0].Mix[i].Engine.Speedup != 1 {
			t.Errorf("%s has %v, the original %v", k.Name, k.Engine.Speedup, top.Pools[0].Mix[i].Engine.Speedup)
		}
	}
}

// TestLaterKind checks that new workers of a mix are of the first kind, or of the kind that its autoscaler names.
func TestLaterKind(t *testing.T) {
	a := autoscale.Default(autoscale.HPA)
	a.Targets = []autoscale.Target{{Metric: autoscale.Held, Value: 1}}
	large, small := engineargs.Default(), engineargs.Default()
	small.Blocks = 7
	top := Topology{Pools: []Pool{Mix([]Kind{{"h100", large, 2}, {"l40s", small, 1}})}, Autoscale: &a}
	for _, c := range []struct{ named, want, wrong string }{
		{"", "[h100 h100 l40s h100]", ""},
		{"l40s", "[h100 h100 l40s l40s]", ""},
		{"a100", "", "new workers of kind a100, must be one of 2 of h100, 1 of l40s"},
	} {
		a.NewKind = c.named
		if err := top.CheckAutoscale(); err != nil || c.wrong != "" {
			if err == nil || err.Error() != c.wrong {
				t.Errorf("%s: %v, want %s", c.named, err, c.wrong)
			}
			continue
		}
		stage := Stage{Topology: &top, Pool: &top.Pools[0]}
		if got := fmt.Sprint(top.KindNames()); got != c.want || top.Pools[0].Mix[stage.KindOf(9)].Name != top.KindNames()[3] {
			t.Errorf("%s: %s, want %s", c.named, got, c.want)
		}
	}
	top.Pools = OnePool(large, 2)
	if err := top.CheckAutoscale(); err == nil {
		t.Error("a kind of new workers where all are alike is taken")
	}
}
