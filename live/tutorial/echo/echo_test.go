package main

import (
	"testing"
	"time"

	"github.com/replay-llm/replay/live/conformance"
	"github.com/replay-llm/replay/live/engine"
)

func TestConformance(t *testing.T) {
	fresh := func() engine.Engine { return New("echo", time.Millisecond) }
	if err := conformance.Run(t, fresh); err != nil {
		t.Fatal(err)
	}
}
