package reference_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestBlockByBlockEqualsPlain runs the cases of the differential test on an engine that manages single blocks,
// without host memory. The passes of this engine equal those of the engine with nodes and segments.
func TestBlockByBlockEqualsPlain(t *testing.T) {
	cases := long.Cases(500, 2000)
	met := make(map[string]int)
	for seed := range cases {
		c := newCase(uint64(seed))
		arrivals, config := c.open()
		if fits(config, arrivals) != nil {
			continue
		}
		want, wantErr := recordOf(reference.New(config), config.Tree, arrivals, c.stride)
		got, err := recordOf(reference.NewWithoutHost(config), config.Tree, arrivals, c.stride)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %s\n%s\nerror %v, want %v", seed, c, firstDifference(got, want), err, wantErr)
		}
		for _, s := range want {
			met["passes"]++
			if s.Preempted > 0 {
				met["preempted"]++
			}
			for _, e := range s.Events {
				met["removed"] += len(e.Removed)
			}
		}
	}
	for what, least := range map[string]int{"passes": 10_000, "preempted": 100, "removed": 1000} {
		if met[what] < least {
			t.Errorf("%d %s met, want at least %d", met[what], what, least)
		}
	}
}

func fits(config vllm.Config, arrivals []schedulertest.Arrival) error {
	for _, a := range arrivals {
		if err := config.Fits(a.Request.InputTokens, a.Request.OutputTokens); err != nil {
			return err
		}
	}
	return nil
}

// errLong ends cases in which requests preempt each other for too long.
var errLong = errors.New("too many passes")

// recordOf returns every pass of a run. The pass's changes of the cache are replaced by the whole content of the
// cache.
func recordOf(core scheduler.Core, tree *prompt.Tree, arrivals []schedulertest.Arrival, stride schedulertest.Stride) ([]schedulertest.Step, error) {
	var steps []schedulertest.Step
	resident := make(map[prompt.NodeID]int32)
	err := schedulertest.Replay(core, arrivals, stride, func(s schedulertest.Step) error {
		for _, k := range s.KV {
			resident[k.Node] = k.Blocks
		}
		s.KV = s.KV[:0]
		for n := range prompt.NodeID(tree.Len()) {
			if resident[n] > 0 {
				s.KV = append(s.KV, scheduler.KVChange{Node: n, Blocks: resident[n]})
			}
		}
		steps = append(steps, s)
		if len(steps) > 3000 {
			return errLong
		}
		return nil
	})
	return steps, err
}

func firstDifference(got, want []schedulertest.Step) string {
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			return fmt.Sprintf("pass %d is\n  %+v, want\n  %+v", i, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d passes, want %d", len(got), len(want))
}
