package offline

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// smallTraces yields every trace of at most three requests of few kinds. Prompts have one to three blocks and share
// prefixes, and answers are short or long. Requests arrive together, at the end of a pass, or within a pass.
func smallTraces(yield func(text string)) {
	var kinds []string
	for _, prompt := range []string{`4,"hash_ids":[1]`, `8,"hash_ids":[1,2]`, `11,"hash_ids":[1,2,3]`, `7,"hash_ids":[4,2]`} {
		for _, output := range []int{1, 6} {
			kinds = append(kinds, fmt.Sprintf(`"output_length":%d,"input_length":%s}`+"\n", output, prompt))
		}
	}
	var extend func(text string, requests int, at float64)
	extend = func(text string, requests int, at float64) {
		for _, kind := range kinds {
			next := fmt.Sprintf(`{"timestamp":%v,%s`, at, kind)
			yield(text + next)
			if requests == 2 {
				continue
			}
			for _, gap := range []float64{0, 3, 1.5} {
				extend(text+next, requests+1, at+gap)
			}
		}
	}
	extend("", 0, 0)
}

// TestSmallTraces replays every small trace on every small pool. Each replay ends in a report, or in an error that
// names the request that cannot run or continue. The driver of one worker and the event loop of a cluster give the
// same replay, also for two workers one after the other. Small budgets make requests preempt each other forever
// (detected after 100,000 passes), so only traces of up to two requests on 4 blocks use them.
func TestSmallTraces(t *testing.T) {
	var met tally
	seen := 0
	smallTraces(func(text string) {
		if seen++; t.Failed() || seen%share(t) > 0 {
			return
		}
		w := mooncake(t, text, 4)
		for blocks := 2; blocks <= 6; blocks++ {
			budgets := []int{16}
			if blocks == 4 && strings.Count(text, "\n") < 3 {
				budgets = []int{16, 5}
			}
			for _, preemption := range []vllm.Preemption{vllm.LIFO, vllm.FIFO} {
				for _, budget := range budgets {
					x := smallTrial(w, blocks, budget, preemption)
					if d := met.check(x); d != "" {
						t.Fatalf("%s\n%s", d, x.show(text))
					}
				}
			}
		}
	})
	if want := 20_000 / share(t); met.finished < want || met.oversize == 0 || met.stalled == 0 && !testing.Short() {
		t.Errorf("%+v, want %d replays that finish, and of the others some", met, want)
	}
}

// tally counts the outcomes of replays.
type tally struct{ finished, oversize, stalled int }

// check returns the first error in a replay, "" if it has none.
func (n *tally) check(x *trial) string {
	a, b := x.run(bySingle), x.run(byCluster)
	a.calls = nil
	if d := difference(a, b); d != "" {
		return "a single worker and a cluster: " + d
	}
	switch {
	case a.err == nil:
		n.finished++
	case isA[*engines.OversizeError](a.err):
		n.oversize++
		return ""
	case isA[*harness.StalledError](a.err):
		n.stalled++
		return ""
	default:
		return "error " + a.err.Error()
	}
	if d := x.broken(a); d != "" {
		return d
	}
	two := *x
	two.cfg.Topology = two.cfg.Resize(2)
	if d := difference(two.run(byAlone), two.run(byCluster)); d != "" {
		return "two workers alone and in a cluster: " + d
	}
	return ""
}

func isA[E error](err error) bool {
	var want E
	return errors.As(err, &want)
}

func smallTrial(w *loadgen.Workload, blocks, budget int, preemption vllm.Preemption) *trial {
	a := engineargs.Default()
	a.BlockTokens, a.Blocks, a.MaxBatchedTokens, a.Preemption = 4, blocks, budget, preemption
	return &trial{
		cfg: Config{Config: harness.Config{
			Workload: w, Topology: engines.Topology{Compat: true, Pools: engines.OnePool(a, 1)},
			Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1},
		}},
		model: coarse{prefill: []float64{2}, decode: []float64{1}},
	}
}
