package replay

import (
	"errors"
	"fmt"
	"math"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/sim"
)

// Stream configures the replay of a trace that is not kept. Requests are read when they arrive and are freed when
// they end, so that memory is proportional to the requests in flight.
type Stream struct {
	// Window is the maximum number of ms by which a row of the trace may be earlier than a row above it, finite and
	// >= 0.
	Window sim.Time
}

// checkStream rejects settings that require kept requests.
func (s *Spec) checkStream() error {
	if s.Stream == nil {
		return nil
	}
	if w := s.Stream.Window; !(w >= 0) || math.IsInf(float64(w), 0) {
		return fmt.Errorf("rows may come %v ms before earlier ones, must be a finite number >= 0", float64(w))
	}
	foreknown := func(a *Autoscale) bool { return a != nil && a.Kind == autoscale.Foreknown }
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{s.Mode != loadgen.Trace, "a closed loop"},
		{s.Trace == nil || s.Trace.Path == "", "a workload that is made"},
		{s.Warm != nil, "caches to begin with"},
		{s.Faults != nil, "faults"},
		{s.Client != nil, "clients that hang up or try again"},
		{len(s.Changes)+len(s.Possible) > 0, "changes"},
		{foreknown(s.Autoscale) || foreknown(s.AutoscaleDecode), "a perfect autoscaler"},
	} {
		if c.bad {
			return errors.New("a trace that is not kept does not go with " + c.what)
		}
	}
	return nil
}

// refuseStream rejects a trace that is not kept for a replay that does not support it.
func (s *Spec) refuseStream(what string) error {
	if s.Stream == nil {
		return nil
	}
	return errors.New("a trace that is not kept does not go with " + what)
}

// openStream opens a trace that is not kept.
func (s *Spec) openStream(stream *formats.Stream) (*loadgen.Workload, error) {
	source, err := stream.Source(float64(s.Stream.Window))
	if err != nil {
		return nil, err
	}
	return &loadgen.Workload{
		Name: stream.Name, TraceBlock: stream.Block, Source: source, Classes: source.Classes(), SessionPrefix: loadgen.RequestPrefix, Renumbered: !stream.Raw(),
	}, nil
}
