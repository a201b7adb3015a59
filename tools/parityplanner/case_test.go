package main

import (
	"path/filepath"
	"testing"
)

// Recorded runs of Dynamo's planner: the scaler of this program wants the same number of workers at every tick.
func TestPlannerEqualsDynamo(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.json.gz")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d cases (%v), must be at least 10", len(paths), err)
	}
	total := 0
	for _, path := range paths {
		c, err := readCase(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		acts, err := c.check()
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		total += acts
	}
	if total < 80 {
		t.Errorf("%d acts, must be at least 80", total)
	}
}
