package measured

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler/timing"
)

// TestReadGraphs checks the captured graphs from each place of the settings, and by the release if no setting has
// them.
func TestReadGraphs(t *testing.T) {
	for _, c := range []struct {
		from, to string
		mode     timing.GraphMode
		sizes    int
	}{
		{`"policy"`, `"cudagraph_mode":[2,1],"policy"`, "FULL_AND_PIECEWISE", 7},
		{`"policy"`, `"cudagraph_mode":"CUDAGraphMode.PIECEWISE","policy"`, "PIECEWISE", 7},
		{`"policy"`, `"cudagraph_mode":0,"policy"`, "", 0},
		{`"policy"`, `"enforce_eager":true,"cudagraph_mode":[2,1],"policy"`, "", 0},
		{`"0.19.0"`, `"0.10.2"`, "PIECEWISE", 7},
		{`"0.19.0"`, `"0.11.0"`, "", 7},
		{`"engine_kwargs":{`, `"engine_kwargs":{"compilation_config":{"cudagraph_mode":"FULL_DECODE_ONLY","cudagraph_capture_sizes":[8,4]},`, "FULL_DECODE_ONLY", 2},
	} {
		s := settingsOf(t, c.from, c.to)
		if s.GraphMode != c.mode || len(s.Graphs) != c.sizes || !slices.IsSorted(s.Graphs) {
			t.Errorf("%s: %q and sizes %v, want %q and %d", c.to, s.GraphMode, s.Graphs, c.mode, c.sizes)
		}
	}
	if s := settingsOf(t, `"policy"`, `"cudagraph_mode":"SOME","policy"`); len(s.refusals) != 1 {
		t.Errorf("an unknown mode: refusals %q", s.refusals)
	}
}
