package main

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/autoscale"
)

// At every tick of recorded runs of Dynamo's planner, the scaler of this program wants the same number of workers.
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

// check returns the number of changes. check returns an error if the scaler and the planner want different numbers of
// workers at a tick.
func (c *plannerCase) check() (acts int, err error) {
	config := autoscale.Default(autoscale.DynamoPlanner)
	config.Planner, config.Sync = c.Planner, c.Sync
	var own [2]autoscale.Scaler
	if c.Peer != nil {
		own, err = autoscale.NewDynamoPair(&config, c.Workers, *c.Peer)
	} else {
		own[0], err = autoscale.NewDynamo(&config, c.Workers)
	}
	if err != nil {
		return 0, err
	}
	for i := range c.Ticks {
		t := &c.Ticks[i]
		s := t.signals()
		if t.Peer != nil {
			s.Peer = t.Peer.signals()
		}
		for half := t; half != nil; half = half.Peer {
			scaler := own[0]
			if half != t {
				scaler, s = own[1], s.Peer
			}
			if got := scaler.Want(s); got != half.Want {
				return acts, fmt.Errorf("%gs: %d workers (%s), the planner wants %d", float64(t.Now)/1000, got, scaler.(autoscale.Explainer).Why(), half.Want)
			}
			if half.Want != half.Workers {
				acts++
			}
		}
	}
	return acts, nil
}

// readCase reads a recorded run.
func readCase(path string) (*plannerCase, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	c := new(plannerCase)
	return c, json.NewDecoder(z).Decode(c)
}
