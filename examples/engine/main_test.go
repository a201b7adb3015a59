package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/sim"
)

func Example() {
	if err := run(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	//                      mean TTFT      p99 TTFT   mean ITL    mean E2E
	// first come             1927 ms       9071 ms   41.73 ms    20180 ms
	// shortest first         1496 ms      36498 ms   42.20 ms    19955 ms
	// batches of 64        245557 ms     481457 ms   11.85 ms   250742 ms
	// batches of 256       234886 ms     435344 ms   17.40 ms   242497 ms
}

// admissions records the admission of each request.
type admissions struct {
	harness.NoObserver
	at []sim.Time // of each pass that admits
	of []int      // requests by pass
}

// Pass records the admissions of a pass.
func (a *admissions) Pass(_ scheduler.Role, _ sim.WorkerID, p *scheduler.Pass) {
	if len(p.Admitted) > 0 {
		a.at, a.of = append(a.at, p.Start), append(a.of, len(p.Admitted))
	}
}

// Requests that arrive every 20 ms form batches of 3 after 50 ms. Later batches have the requests that arrived during
// the previous batch, at most 8.
func TestBatches(t *testing.T) {
	spec := replay.Spec{
		Synthetic: loadgen.Synthetic{Requests: 40, Input: 300, Output: 10, Interval: 20, Turns: 1},
		Speedup:   1, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 1)},
	}
	var seen admissions
	_, err := spec.Run(context.Background(), replay.Streams{Observer: &seen, Engine: func(o custom.Options) (custom.Engine, error) {
		return &batches{Options: o, size: 8, wait: 50}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range seen.of {
		if total += n; n > 8 {
			t.Errorf("a batch of %d, want at most 8", n)
		}
	}
	if seen.at[0] != 50 || seen.of[0] != 3 || total != 40 {
		t.Errorf("batches of %v at %v, want 3 first, at 50 ms, and 40 in all", seen.of, seen.at)
	}
}
