package formats

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/sim"
)

// checkTimes refuses a time that is not on the clock of a replay.
func (s *Stream) checkTimes(r *Record) error {
	if s.Shape.Raw && s.Options.Compat {
		return nil
	}
	at := r.At
	if r.Stamped {
		at = r.When.MS
	}
	for _, t := range []struct {
		name  string
		ms    float64
		given bool
	}{{"arrival", at, r.HasAt}, {"delay", r.Delay, r.HasDelay}} {
		if !t.given || math.Abs(t.ms) <= sim.MaxTime {
			continue
		}
		if err := scan.BoundTime(t.ms, fmt.Sprint(t.ms, " ms")); err != nil {
			return s.RowError(r, "%s %v", t.name, err)
		}
	}
	return nil
}

// mostChecked bounds the sessions whose order is checked of a trace that is not kept.
const mostChecked = 1 << 18

// checkReplayed refuses a row that is well-formed and that no engine can run, that arrives before the
// trace begins, or that does not fit the rows above it, where that is asked for.
func (s *Stream) checkReplayed(r *Record) error {
	if s.order == nil {
		return nil
	}
	early, negative := r.Negative()
	switch {
	case negative:
		return s.RowError(r, "arrival is %v ms, want >= 0", early)
	case r.Input == 0 && len(r.IDs) == 0:
		return s.RowError(r, "input_length is 0 because hash_ids is empty, want > 0")
	case r.Input == 0:
		return s.RowError(r, "input_length is 0, want > 0")
	}
	_, err := s.order.Place(r)
	if s.order.beyond == 1 {
		s.order.beyond++
		s.Warn(fmt.Sprintf("%s: more than %d sessions: the order of turns is checked in the first %d", s.Name, mostChecked, mostChecked))
	}
	return err
}
