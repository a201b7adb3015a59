package replay

import (
	"errors"
	"fmt"
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
)

// Validate refuses replays that cannot be run. What concerns the workload is
// found when it is opened.
func (s *Spec) Validate() error {
	if err := s.checkMode(); err != nil {
		return err
	}
	if least := s.Router.Info().MinWorkers; least > 1 && len(s.Pools) == 1 && s.Pools[0].Count < least && len(s.Scale) == 0 {
		return fmt.Errorf("workers are %d, want at least %d with the KV router", s.Pools[0].Count, least)
	}
	return s.Topology.Validate()
}

func (s *Spec) checkMode() error {
	switch {
	case !(s.Until >= 0) || math.IsInf(float64(s.Until), 0):
		return fmt.Errorf("the end is at %v ms, want a finite instant >= 0", float64(s.Until))
	case s.Mode == loadgen.Concurrency && s.MaxInFlight < 1:
		return fmt.Errorf("requests in flight are %d, want at least 1", s.MaxInFlight)
	case s.Mode == loadgen.Trace && s.Trace != nil && !s.Trace.Detect && s.Trace.Format == formats.Agentic:
		return errors.New("an agentic trace has no timestamps, want concurrency mode")
	}
	return nil
}
