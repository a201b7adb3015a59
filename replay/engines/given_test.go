package engines

import (
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
)

// A command line that leaves open which cluster is meant is refused, in the
// reference's order: each breaks the rule named and those after it.
func TestGivenRefuses(t *testing.T) {
	args := engineargs.Default()
	for _, c := range []struct {
		given Given
		want  string
	}{
		{Given{-1, 1, 1, nil, nil, &args}, "workers are -1"},
		{Given{1, 1, maxWorkers + 1, nil, nil, nil}, "decode workers are 1000001, must be 1 to 1000000"},
		{Given{1, 2, 1, &args, &args, nil}, "one or the other"},
		{Given{1, 2, 1, nil, nil, nil}, "2 prefill and 1 decode workers"},
		{Given{2, 1, 1, nil, &args, &args}, "workers are 2 beside"},
		{Given{1, 1, 1, nil, &args, nil}, "without decode engine arguments"},
		{Given{1, 1, 1, nil, nil, &args}, "without prefill engine arguments"},
	} {
		if _, err := c.given.Pools(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.given, err, c.want)
		}
	}
}

// What is not said is one worker with the default arguments.
func TestGivenPools(t *testing.T) {
	pools, err := (&Given{Workers: 3, PrefillWorkers: 1, DecodeWorkers: 1}).Pools()
	if err != nil || len(pools) != 1 || !reflect.DeepEqual(pools, OnePool(engineargs.Default(), 3)) {
		t.Errorf("three workers: %+v, %v", pools, err)
	}
	args := engineargs.Default()
	pools, err = (&Given{Workers: 1, PrefillWorkers: 2, DecodeWorkers: 4, Prefill: &args, Decode: &args}).Pools()
	if err != nil || len(pools) != 2 || !reflect.DeepEqual(pools, []Pool{{Role: scheduler.Prefill, Engine: args, Count: 2}, {Role: scheduler.Decode, Engine: args, Count: 4}}) {
		t.Errorf("two pools: %+v, %v", pools, err)
	}
}
