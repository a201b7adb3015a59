package engines

import (
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
)

// TestJoinPoolsRefuses checks that an ambiguous command line is rejected, in the reference's order of checks. Each
// case breaks the given rule and all later rules.
func TestJoinPoolsRefuses(t *testing.T) {
	args := engineargs.Default()
	for _, c := range []struct {
		counts                  ByRole[int]
		engine, prefill, decode *engineargs.Args
		want                    string
	}{
		{ByRole[int]{-1, 1, 1}, nil, nil, &args, "workers are -1"},
		{ByRole[int]{1, 1, maxWorkers + 1}, nil, nil, nil, "decode workers are 1000001, must be 1 to 1000000"},
		{ByRole[int]{1, 2, 1}, &args, &args, nil, "are mutually exclusive"},
		{ByRole[int]{1, 2, 1}, nil, nil, nil, "2 prefill and 1 decode workers"},
		{ByRole[int]{2, 1, 1}, nil, &args, &args, "workers are 2 with prefill and decode engine arguments"},
		{ByRole[int]{1, 1, 1}, nil, &args, nil, "prefill engine arguments require decode"},
		{ByRole[int]{1, 1, 1}, nil, nil, &args, "decode engine arguments require prefill"},
	} {
		if _, err := JoinPools(c.counts, ByRole[*engineargs.Args]{c.engine, c.prefill, c.decode}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
}

// TestJoinPools checks the default: one worker with the default arguments.
func TestJoinPools(t *testing.T) {
	pools, err := JoinPools(ByRole[int]{3, 1, 1}, ByRole[*engineargs.Args]{})
	if err != nil || len(pools) != 1 || !reflect.DeepEqual([]Pool(pools), OnePool(engineargs.Default(), 3)) {
		t.Errorf("three workers: %+v, %v", pools, err)
	}
	args := engineargs.Default()
	pools, err = JoinPools(ByRole[int]{1, 2, 4}, ByRole[*engineargs.Args]{nil, &args, &args})
	if err != nil || len(pools) != 2 || !reflect.DeepEqual([]Pool(pools), []Pool{{Role: scheduler.Prefill, Engine: args, Count: 2}, {Role: scheduler.Decode, Engine: args, Count: 4}}) {
		t.Errorf("two pools: %+v, %v", pools, err)
	}
}
