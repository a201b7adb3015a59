package offline

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/router/policy"
)

// Workers replayed on several goroutines leave what they leave one after the other, errors too.
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
