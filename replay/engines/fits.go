package engines

import (
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/scheduler"
)

// OversizeError reports requests that can never run on the engines of a replay.
type OversizeError struct {
	Count  int    // such requests
	Of     int    // all requests
	First  string // the first one's place in the trace
	Err    error  // why it cannot run
	Blocks int    // num_gpu_blocks that would admit them all; 0 when none would
}

func (e *OversizeError) Error() string {
	text := fmt.Sprintf("%s: %v; %d of %d requests can never run", e.First, e.Err, e.Count, e.Of)
	if e.Blocks > 0 {
		text += fmt.Sprintf(", num_gpu_blocks %d would admit them all", e.Blocks)
	}
	return text
}

func (e *OversizeError) Unwrap() error { return e.Err }

// CheckSizes refuses, before any pass, requests that no idle engine can run.
func CheckSizes(w *loadgen.Workload, stages []*Stage) error {
	var found OversizeError
	hopeless := false
	var sizes []func(input, output int) *scheduler.OversizeError
	for _, s := range stages {
		sizes = append(sizes, s.sizeCheck())
	}
	for i := range w.Turns {
		var err *scheduler.OversizeError
		for k := 0; k < len(sizes) && err == nil; k++ {
			err = sizes[k](int(w.Turns[i].Input), int(w.Turns[i].Output))
		}
		if err == nil {
			continue
		}
		if found.Count++; found.Count == 1 {
			found.First, found.Err = w.PlaceOf(int32(i)), err
		}
		found.Blocks = max(found.Blocks, err.Blocks)
		hopeless = hopeless || err.Blocks == 0
	}
	if found.Count == 0 {
		return nil
	}
	if hopeless {
		found.Blocks = 0
	}
	found.Of = len(w.Turns)
	return &found
}

// Fits returns why a request can run nowhere, nil when it can run.
func Fits(stages []*Stage, input, output int) *scheduler.OversizeError {
	for _, s := range stages {
		if err := s.Fits(input, output); err != nil {
			return err
		}
	}
	return nil
}
