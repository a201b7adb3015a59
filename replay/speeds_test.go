package replay

import (
	"testing"
)

// TestWorkerSpeeds checks that a worker at a quarter of the speed takes four times as long per token, on either
// clock.
func TestWorkerSpeeds(t *testing.T) {
	s := twoRequests()
	fast, err := s.Run(t.Context(), Streams{})
	if err != nil {
		t.Fatal(err)
	}
	s.WorkerSpeeds = [][]float64{{0.25}}
	slow, err := s.Run(t.Context(), Streams{})
	if err != nil {
		t.Fatal(err)
	}
	live, err := s.RunLive(t.Context(), Streams{}, Live{})
	if err != nil {
		t.Fatal(err)
	}
	const key = "mean_e2e_latency_ms" // a real clock may be late but is never early
	before, after, real := fast.Report.Numbers()["min_itl_ms"], slow.Report.Numbers()["min_itl_ms"], live.Report.Numbers()[key]
	if !(after > 3.9*before && after < 4.1*before) {
		t.Errorf("the shortest gap is %v ms, then %v, want four times as long", before, after)
	}
	if want := slow.Report.Numbers()[key]; !(real > 0.9*want) {
		t.Errorf("in real time requests take %v ms on average, want at least about %v", real, want)
	}
}
