package engines

import (
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// TestWorkerSpeed checks that all times of a pass on a worker at 0.5 double, for each kind of scaling. Passes of
// other workers do not change.
func TestWorkerSpeed(t *testing.T) {
	for _, speedup := range []float64{0, 1, 2, 0.3} {
		for _, decode := range []float64{0, 1, 4} {
			top := Topology{Pools: OnePool(engineargs.Default(), 2), WorkerSpeeds: [][]float64{{1, 0.5}}}
			top.Pools[0].Engine.Speedup, top.Pools[0].Engine.DecodeSpeedup = speedup, decode
			stages, err := NewStages(&top, Use{})
			if err != nil {
				t.Fatal(err)
			}
			plain, slow := &stages[0].at(0).Clock, &stages[0].at(1).Clock
			if *plain != stages[0].Clock {
				t.Errorf("speedup %v, decode %v: worker 0 has %+v", speedup, decode, plain)
			}
			for name, part := range map[string]func(*timing.Clock) (float64, error){
				"prefill": func(c *timing.Clock) (float64, error) { return c.Prefill(2, 1000, 0) },
				"decode":  func(c *timing.Clock) (float64, error) { return c.Decode(8, 4000, 500, 100000) },
			} {
				before, err := part(plain)
				after, err2 := part(slow)
				if err != nil || err2 != nil || !(after/before > 1.999 && after/before < 2.001) {
					t.Errorf("speedup %v, decode %v: %s takes %v, then %v (%v, %v)", speedup, decode, name, before, after, err, err2)
				}
			}
		}
	}
}

// TestCheckSpeeds checks that invalid speeds, and speeds that do not match the workers, are rejected.
func TestCheckSpeeds(t *testing.T) {
	for _, c := range []struct {
		speeds [][]float64
		scale  []ScaleEvent
		want   string // part of the error; "": none
	}{
		{[][]float64{{1, 0.84}}, nil, ""},
		{[][]float64{nil}, []ScaleEvent{{5, 3, KeepSize}}, ""},
		{[][]float64{{1}}, nil, "1 for 2 workers"},
		{[][]float64{nil, {1}}, nil, "1 for 0 workers"},
		{[][]float64{{1, 0}}, nil, "the speed of worker 1 is 0"},
		{[][]float64{{1, 0.84}}, []ScaleEvent{{5, 3, KeepSize}}, "start and stop"},
	} {
		err := (&Topology{Pools: OnePool(engineargs.Default(), 2), WorkerSpeeds: c.speeds, Scale: c.scale}).Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.speeds, err, c.want)
		}
	}
}

// TestResizeSpeeds checks that a larger cluster repeats the speeds and a smaller cluster has the first of them.
func TestResizeSpeeds(t *testing.T) {
	top := Topology{Pools: OnePool(engineargs.Default(), 3), WorkerSpeeds: [][]float64{{0.5, 1, 2}}}
	for size, want := range map[int][]float64{1: {0.5}, 3: {0.5, 1, 2}, 7: {0.5, 1, 2, 0.5, 1, 2, 0.5}} {
		other := top.Resize(size)
		if err := other.Validate(); err != nil || !slices.Equal(other.WorkerSpeeds[0], want) {
			t.Errorf("%d workers: %v, %v", size, other.WorkerSpeeds, err)
		}
	}
	if !slices.Equal(top.WorkerSpeeds[0], []float64{0.5, 1, 2}) {
		t.Errorf("the original has %v", top.WorkerSpeeds)
	}
}

// TestDescribeSpeeds checks that an assumption lists the slow workers, up to a limit.
func TestDescribeSpeeds(t *testing.T) {
	top := Topology{Pools: OnePool(engineargs.Default(), 3), WorkerSpeeds: [][]float64{{1, 0.84, 1}}}
	if got := top.describeSpeeds(0); got != "worker 1 at 0.84 times the speed of these pass times" {
		t.Error(got)
	}
	if top.WorkerSpeeds[0][1] = 1; top.describeSpeeds(0) != "" {
		t.Error("workers that are alike are described")
	}
	top.WorkerSpeeds[0] = make([]float64, 20)
	for id := range top.WorkerSpeeds[0] {
		top.WorkerSpeeds[0][sim.WorkerID(id)] = 0.5
	}
	if got := top.describeSpeeds(0); !strings.Contains(got, "worker 7 at 0.5 and 12 more times") {
		t.Error(got)
	}
}
