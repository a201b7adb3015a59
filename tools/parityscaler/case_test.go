package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/autoscale"
)

// At every tick of recorded cases, this program's scaler wants the same number of workers as the controller. The
// controllers are those of Kubernetes and of KEDA.
func TestScalersEqualControllers(t *testing.T) {
	for _, tc := range []struct {
		path  string
		kind  autoscale.Kind
		least int // minimum number of acts
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

// check sends the ticks to this program's scaler. check returns an error if a decision differs from the controller's.
func (c *scalerCase) check() error {
	own := autoscale.New(&c.Config)
	for i := range c.Ticks {
		t := &c.Ticks[i]
		if got := own.Want(t.signals()); got != t.Want {
			return fmt.Errorf("tick %d at %gs: %d workers (%s), must be %d", i, float64(t.Now)/1000, got, own.(autoscale.Explainer).Why(), t.Want)
		}
	}
	return nil
}

// readCases reads a file of recorded cases.
func readCases(path string) (all []*scalerCase, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		c := new(scalerCase)
		if err := json.Unmarshal(line, c); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, len(all)+1, err)
		}
		all = append(all, c)
	}
	return all, nil
}
