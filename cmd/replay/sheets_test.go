package main

import (
	"encoding/json"
	"testing"
)

// A sweep accepts pass times by data sheets, as trace does. No file contains these pass times.
func TestSweepTakesRooflines(t *testing.T) {
	const profile = "timing-profile=roofline:h100/llama-3.1-8b"
	var want struct {
		TTFT float64 `json:"mean_ttft_ms"`
	}
	load := []string{"input-tokens=64", "output-tokens=20", "request-count=2", "arrival-interval-ms=10"}
	trace, sweep := []string{"trace", "--output=json", "--" + profile}, []string{"sweep", "--output=json"}
	for _, setting := range load {
		trace, sweep = append(trace, "--"+setting), append(sweep, "--set="+setting)
	}
	if err := json.Unmarshal(printed(t, trace), &want); err != nil || want.TTFT == 0 {
		t.Fatal(want, err)
	}
	for _, args := range [][]string{{"--grid=" + profile}, {"--set=" + profile, "--grid=workers=1"}} {
		var cells []struct{ Report map[string]any }
		text := printed(t, append(sweep, args...))
		if err := json.Unmarshal(text, &cells); err != nil || len(cells) != 1 || cells[0].Report["mean_ttft_ms"] != want.TTFT || cells[0].Report["gpus"] != 1.0 {
			t.Errorf("%q: %v\n%s", args, err, text)
		}
	}
}
