package engines

import (
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/scheduler/sglang"
	sglangreference "github.com/replay-llm/replay/scheduler/sglang/reference"
)

// Fits returns nil if a request can run on every idle engine of the pool, otherwise the reason.
func (s *Stage) Fits(input, output int) *scheduler.OversizeError { return s.sizeCheck()(input, output) }

// sizeCheck returns a function equal to Fits that is faster for many requests.
func (s *Stage) sizeCheck() func(input, output int) *scheduler.OversizeError {
	if len(s.kinds) > 0 {
		return s.checkMixed()
	}
	if s.Custom != nil {
		c := custom.Config{Options: s.customOptions(0)}
		return c.Fits
	}
	if s.Engine.Engine == engineargs.SGLang {
		c, fits := s.sglangConfig(0), sglang.Fits
		if s.Compat {
			fits = sglangreference.Fits
		}
		return func(input, output int) *scheduler.OversizeError { return fits(c, input, output) }
	}
	if s.Engine.Engine == engineargs.TRTLLM {
		c := s.trtllmConfig()
		return c.Fits
	}
	c := s.vllmConfig()
	return func(input, output int) *scheduler.OversizeError {
		if s.Role == scheduler.Prefill {
			output = 1
		}
		if err := c.Fits(input, output); err != nil || !s.FitUncached {
			return err
		}
		return c.CheckWholePrompt(input, output) // a server does not assume that a prefix is cached
	}
}

// checkMixed is sizeCheck for workers of several kinds.
func (s *Stage) checkMixed() func(input, output int) *scheduler.OversizeError {
	var checks []func(input, output int) *scheduler.OversizeError
	for _, k := range s.kinds {
		checks = append(checks, k.sizeCheck())
	}
	return func(input, output int) *scheduler.OversizeError {
		for i, check := range checks {
			if err := check(input, output); err != nil {
				err.Reason = s.Mix[i].Name + ": " + err.Reason
				return err
			}
		}
		return nil
	}
}

// OversizeError reports requests that do not fit on the engines of a replay.
type OversizeError struct {
	Count  int    // number of such requests
	Of     int    // number of all requests; 0: unknown
	First  string // position of the first in the trace
	Err    error  // reason of the first
	Blocks int    // num_gpu_blocks with which all would fit; 0: no number
}

func (e *OversizeError) Error() string {
	text := fmt.Sprintf("%s: %v; %d of %d requests can never run", e.First, e.Err, e.Count, e.Of)
	if e.Of == 0 {
		text = fmt.Sprintf("%s: %v; the request can never run", e.First, e.Err)
	}
	them := "them all"
	if e.Of == 0 {
		them = "it"
	}
	if e.Blocks > 0 {
		text += fmt.Sprintf(", num_gpu_blocks %d would admit %s", e.Blocks, them)
	}
	return text
}

func (e *OversizeError) Unwrap() error { return e.Err }

// CheckSizes rejects requests that do not fit on an idle engine, before any pass. Requests that exceed the maximum
// sequence length are rejected when they arrive.
func CheckSizes(w *loadgen.Workload, stages []*Stage) error {
	var found OversizeError
	hopeless := false
	sizes, lengths := SizeChecks(stages), NewLengths(stages[0].Topology)
	for i := range w.Turns {
		var err *scheduler.OversizeError
		output, refused := lengths.Fit(int(w.Turns[i].Input), int(w.Turns[i].Output))
		for k := 0; k < len(sizes) && err == nil && refused == nil; k++ {
			err = sizes[k](int(w.Turns[i].Input), output)
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

// SizeChecks returns one function per pool. SizeChecks returns the reason if a request does not fit on an idle engine
// of the pool, otherwise nil.
func SizeChecks(stages []*Stage) (all []func(input, output int) *scheduler.OversizeError) {
	for _, s := range stages {
		all = append(all, s.sizeCheck())
	}
	return all
}

// Fits returns the reason if a request does not fit on a pool, otherwise nil.
func Fits(stages []*Stage, input, output int) *scheduler.OversizeError {
	for _, s := range stages {
		if err := s.Fits(input, output); err != nil {
			return err
		}
	}
	return nil
}
