package html

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/report/scaling"
)

// scaledRun returns a run with actions of autoscalers.
func scaledRun() Run {
	r := made(2000, 4)
	s := &scaling.Study{Goal: "p99 TTFT at most 50 ms, and no request lost", Requests: 2000, Missed: 310, MissedGrowing: 200, MissedShrinking: 60, MissedElse: 50}
	s.Workers = []scaling.Size{{AtMS: 0, Ready: 1}, {AtMS: 1000, Ready: 1, Starting: 2}, {AtMS: 2500, Ready: 3}, {AtMS: 5000, Ready: 2, Leaving: 1}, {AtMS: 5500, Ready: 2}, {Pool: "decode", Ready: 4}, {Pool: "decode", AtMS: 4000, Ready: 4, Starting: 1}}
	s.Acts = []scaling.Act{
		{Number: 1, AtMS: 1000, From: 1, To: 3, Why: "waiting is 9 a worker, target 3: 3", UntilMS: 2500, Ready: true, Requests: 300, Missed: 200, ExtraTTFT: 12.345678, ExtraE2E: 50},
		{Number: 2, Pool: "decode", AtMS: 4000, From: 4, To: 5, UntilMS: 6000},
		{Number: 3, AtMS: 5000, From: 3, To: 2, Why: "</script>", UntilMS: 6000, Requests: 200, Missed: 60, ExtraTTFT: -3},
	}
	r.Scaling = s
	return r
}

// The page has each pool up to the end of the run, and the cost of each action.
func TestScaled(t *testing.T) {
	r := scaledRun()
	x := newScaled(r.Scaling, 9000)
	if len(x.Pools) != 2 || x.Pools[1].Name != "decode" || x.Missed != [5]int{2000, 310, 200, 60, 50} {
		t.Errorf("%+v", x)
	}
	if p := x.Pools[0]; len(p.At) != 6 || p.At[5] != 9 || p.Ready[5] != 2 || p.Leaving[3] != 1 {
		t.Errorf("%+v", p)
	}
	if a := x.Acts[0]; a.Took != 1500 || a.TTFT != 12.346 || !a.Ready {
		t.Errorf("%+v", a)
	}
	if text := written(t, r); strings.Contains(text, `"why":"</script>"`) || !strings.Contains(text, "What each act cost") {
		t.Error("the page has no table of acts, or a reason that ends its script")
	}
}
