package offline

import (
	"errors"
	"fmt"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/router/policy"
)

// TestThreadsEqualOne checks that several goroutines give the same results and errors as one goroutine.
func TestThreadsEqualOne(t *testing.T) {
	failed := 0
	each(t, 2000, func(t *testing.T, d draw, x *trial, text string) bool {
		x.roundRobin()
		if d.IntN(2) == 0 {
			x.cfg.Router = policy.Name("random")
		}
		if x.cfg.Admission.Mode == loadgen.Concurrency || x.cfg.Workload.MultiTurn() || x.cfg.Pools[0].Count < 2 {
			return false
		}
		plain := x.run(byAlone)
		x.cfg.Threads = 2 + d.IntN(3)
		finished := 0
		x.cfg.Progress = func(n int) {
			if n < finished {
				t.Errorf("progress falls from %d to %d requests", finished, n)
			}
			finished = n
		}
		threads := x.run(byAlone)
		if fmt.Sprint(plain.err) != fmt.Sprint(threads.err) {
			t.Fatalf("error %v, and with %d threads %v\n%s", plain.err, x.cfg.Threads, threads.err, x.show(text))
		}
		if plain.err != nil {
			failed++
			return false
		}
		if d := difference(plain, threads); d != "" {
			t.Fatalf("one thread and %d: %s\n%s", x.cfg.Threads, d, x.show(text))
		}
		return true
	})
	t.Logf("%d replays failed", failed)
}

// TestStopWithThreads checks that Stop receives the requests of all workers, and ends a replay at the same point as
// with one thread.
func TestStopWithThreads(t *testing.T) {
	over := errors.New("enough")
	stopped := 0
	each(t, 200, func(t *testing.T, d draw, x *trial, text string) bool {
		x.roundRobin()
		if x.cfg.Admission.Mode == loadgen.Concurrency || x.cfg.Workload.MultiTurn() || x.cfg.Pools[0].Count < 2 {
			return false
		}
		most := 1 + d.IntN(5)
		end := func(threads int) (seen int, err error) {
			x.cfg.Threads = threads
			x.cfg.Stop = func(c *collector.Collector, finished int) error {
				if seen = c.Len(); finished >= most {
					return over
				}
				return nil
			}
			err = x.run(byAlone).err
			return seen, err
		}
		seen, err := end(1)
		seenByMany, many := end(2 + d.IntN(3))
		if fmt.Sprint(err) != fmt.Sprint(many) || seen != seenByMany {
			t.Fatalf("one thread ends with %v after %d requests, several with %v after %d\n%s", err, seen, many, seenByMany, x.show(text))
		}
		if errors.Is(err, over) {
			stopped++
		}
		return true
	})
	if stopped == 0 {
		t.Error("no replay was stopped")
	}
}
