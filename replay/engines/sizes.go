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

// Fits returns nil if a request can run on the pool's idle engines, whichever it is sent
// to, or why not.
func (s *Stage) Fits(input, output int) *scheduler.OversizeError { return s.sizeCheck()(input, output) }

// sizeCheck returns a function that does what Fits does, for many requests.
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
		return c.TakesWhole(input, output) // a server does not count on its cache
	}
}

// checkMixed is sizeCheck where workers are of several kinds.
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

// OversizeError reports requests that can never run on the engines of a replay.
type OversizeError struct {
	Count  int    // such requests
	Of     int    // all requests; 0 if these are not known beforehand
	First  string // the first one's place in the trace
	Err    error  // why it cannot run
	Blocks int    // num_gpu_blocks that would admit them all; 0 when none would
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

// CheckSizes rejects, before any pass, requests that no idle engine can run. Requests that are too long are turned away when they
// arrive.
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

// SizeChecks returns, by pool, the function that returns why no idle engine of it can run a request, nil when one can.
func SizeChecks(stages []*Stage) (all []func(input, output int) *scheduler.OversizeError) {
	for _, s := range stages {
		all = append(all, s.sizeCheck())
	}
	return all
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
