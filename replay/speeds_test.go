package replay

import (
	"testing"
)

// A worker at a quarter of the speed takes four times as long for a token, on either clock.
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
	const key = "min_itl_ms"
	before, after, real := fast.Report.Numbers()[key], slow.Report.Numbers()[key], live.Report.Numbers()[key]
	if !(after > 3.9*before && after < 4.1*before) {
		t.Errorf("the shortest gap is %v ms, then %v, want four times as long", before, after)
	}
	if !(real > 2*before) {
		t.Errorf("in real time the shortest gap is %v ms, want about %v", real, after)
	}
}
