package reference

import (
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/sim"
)

// Results equal reports of the reference for runs that no golden case covers: single-token pages, small clips,
// unusual conservativeness, hundreds of retractions.
func TestReferenceReports(t *testing.T) {
	optional.Data(t, "golden") // golden data includes the traces
	for _, want := range []struct {
		trace                     string
		page, pages, chunk, clip  int
		policy                    sglang.Policy
		conservativeness          float64
		duration, ttft, itl, last sim.Time // the last three are maxima
		reuse                     float64
		retracts, stalls          bool
	}{
		{
			"short.jsonl", 1, 2000000, 512, 10, sglang.LPM, 0.3,
			51645.15582100025, 716.9356990001033, 30.012739999999212, 956.7639640000029, 0.8762441442278344, false, false,
		},
		{
			"burst.jsonl", 4, 20000, 2048, 1, sglang.FIFO, 0.3,
			51863.26853100001, 4944.379219, 55.274677999999994, 7298.124845999998, 0.8504967168190248, false, false,
		},
		{
			"short.jsonl", 48, 60, 8192, 2, sglang.FIFO, 0.1,
			134541.20263999596, 82579.14337599595, 170.62892600000032, 83092.74919499597, 0.04801401404058232, true, false,
		},
		{trace: "short.jsonl", page: 16, pages: 200, chunk: 8192, clip: 2, policy: sglang.LPM, conservativeness: 2.5, stalls: true},
	} {
		c := config(want.page, want.pages)
		c.ChunkTokens, c.ClipNewTokens, c.Policy, c.Conservativeness = want.chunk, want.clip, want.policy, want.conservativeness
		w := newWorkload(c, 512, loadTrace(t, want.trace))
		retracted, itl := 0, sim.Time(0)
		w.each = func(p *scheduler.Pass) {
			retracted += p.Preempted
			if p.Decoding > 0 {
				itl = max(itl, p.Gap)
			}
			for _, g := range p.Gaps {
				itl = max(itl, g)
			}
		}
		if err := w.play(c, 1); (err != nil) != want.stalls {
			t.Errorf("%s, pages of %d: error %v", want.trace, want.page, err)
		}
		if want.stalls {
			continue
		}
		var ttft, last sim.Time
		for i := range w.requests {
			ttft, last = max(ttft, w.first[i]-w.arrivals[i]), max(last, w.last[i]-w.arrivals[i])
		}
		if w.now != want.duration || ttft != want.ttft || itl != want.itl || last != want.last || w.ratio() != want.reuse {
			t.Errorf("%s, pages of %d: duration %v, greatest ttft %v, itl %v, e2e %v, reuse %v; want %+v",
				want.trace, want.page, w.now, ttft, itl, last, w.ratio(), want)
		}
		if want.retracts != (retracted > 0) {
			t.Errorf("%s, pages of %d: %d retractions", want.trace, want.page, retracted)
		}
		t.Logf("%s: %d retractions", want.trace, retracted)
	}
}
