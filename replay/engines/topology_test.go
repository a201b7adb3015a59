package engines

import (
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/engineargs"
)

// TestTopologyCopies checks that changed sizes and engines are copies.
func TestTopologyCopies(t *testing.T) {
	p := Pool{Engine: engineargs.Default(), Count: 2}
	a := Topology{Pools: TwoPools(p, p)}
	b := a.Resize(3, 4).WithEngines(func(e *engineargs.Args) { e.Blocks = 7 })
	if !reflect.DeepEqual(a.Pools[0], Pool{Role: a.Pools[0].Role, Engine: p.Engine, Count: 2}) || a.Pools[1].Count != 2 {
		t.Errorf("the original has changed: %+v", a.Pools)
	}
	if b.Pools[0].Count != 3 || b.Pools[1].Count != 4 || b.Pools[1].Engine.Blocks != 7 {
		t.Errorf("the copy is %+v", b.Pools)
	}
}

// TestCheckScale checks that events must be in order, and that sizes must be of existing pools.
func TestCheckScale(t *testing.T) {
	p := Pool{Engine: engineargs.Default(), Count: 1}
	one, two := OnePool(p.Engine, 1), TwoPools(p, p)
	for _, c := range []struct {
		pools  []Pool
		events []ScaleEvent
		want   string // part of the error; "": none
	}{
		{one, []ScaleEvent{{0, 1, KeepSize}, {5, 2, KeepSize}, {5, KeepSize, KeepSize}}, ""},
		{two, []ScaleEvent{{1, KeepSize, 3}}, ""},
		{one, []ScaleEvent{{5, 2, KeepSize}, {4, 1, KeepSize}}, "scaling at 4 ms: expected instants >= 0 in order"},
		{one, []ScaleEvent{{-1, 2, KeepSize}}, "scaling at -1 ms"},
		{one, []ScaleEvent{{1, 0, KeepSize}}, "to 0 and -1 workers, must be at least 1"},
		{one, []ScaleEvent{{1, -2, KeepSize}}, "to -2 and -1 workers"},
		{two, []ScaleEvent{{1, 1, 0}}, "to 1 and 0 workers"},
		{one, []ScaleEvent{{1, 1, 1}}, "decode workers require prefill and decode pools"},
	} {
		err := (&Topology{Pools: c.pools, Scale: c.events}).CheckScale()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.events, err, c.want)
		}
	}
}

// TestCheckRatio checks that a ratio requires an autoscaler of the other pool that is not a ratio.
func TestCheckRatio(t *testing.T) {
	p := Pool{Engine: engineargs.Default(), Count: 1}
	ratio, hpa := autoscale.Default(autoscale.ByRatio), autoscale.Default(autoscale.HPA)
	ratio.Ratio, hpa.Targets = 0.5, []autoscale.Target{{Metric: autoscale.Held, Value: 1}}
	for _, c := range []struct {
		entry, decode *autoscale.Config
		want          bool
	}{{&ratio, &hpa, true}, {&hpa, &ratio, true}, {&ratio, &ratio, false}, {&ratio, nil, false}, {nil, &ratio, false}} {
		err := (&Topology{Pools: TwoPools(p, p), Autoscale: c.entry, AutoscaleDecode: c.decode}).CheckAutoscale()
		if (err == nil) != c.want {
			t.Errorf("%v and %v: %v", c.entry, c.decode, err)
		}
	}
	if err := (&Topology{Pools: OnePool(p.Engine, 1), Autoscale: &ratio}).CheckAutoscale(); err == nil {
		t.Error("a ratio of the only pool is accepted")
	}
}
