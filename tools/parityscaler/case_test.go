package main

import (
	"testing"

	"github.com/replay-llm/replay/replay/autoscale"
)

// Recorded cases of Kubernetes' own controller and of KEDA's: this program's scaler wants the same number of
// workers at every tick.
func TestScalersEqualControllers(t *testing.T) {
	for _, tc := range []struct {
		path  string
		kind  autoscale.Kind
		least int // acts
	}{
		{"testdata/hpa.jsonl", autoscale.HPA, 250},
		{"testdata/keda.jsonl", autoscale.KEDA, 400},
	} {
		all, err := readCases(tc.path)
		if err != nil {
			t.Fatal(err)
		}
		acts := 0
		for i, c := range all {
			if acts += c.countActs(); c.Config.Kind != tc.kind {
				t.Errorf("%s:%d: scaler %s, must be %s", tc.path, i+1, c.Config.Kind, tc.kind)
			}
			if err := c.check(); err != nil {
				t.Errorf("%s:%d: %v", tc.path, i+1, err)
			}
		}
		if len(all) != 60 || acts < tc.least {
			t.Errorf("%s: %d cases with %d acts, must be 60 with at least %d", tc.path, len(all), acts, tc.least)
		}
	}
}
