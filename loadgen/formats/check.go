package formats

import (
	"fmt"
	"math"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/sim"
)

// checkTimes refuses a time that is not on the clock of a replay.
func (s *Stream) checkTimes(r *Record) error {
	if s.shape.raw && s.o.Compat {
		return nil
	}
	at := r.At
	if r.stamp {
		at = r.when.ms
	}
	for _, t := range []struct {
		name  string
		ms    float64
		given bool
	}{{"arrival", at, r.HasAt}, {"delay", r.Delay, r.HasDelay}} {
		if !t.given || math.Abs(t.ms) <= sim.MaxTime {
			continue
		}
		if err := boundTime(t.ms, fmt.Sprint(t.ms, " ms")); err != nil {
			return s.rowError(r, "%s %v", t.name, err)
		}
	}
	return nil
}

// boundTime refuses a time in ms that is not on the clock of a replay, and is written so.
func boundTime(ms float64, text string) error {
	switch most := strconv.FormatFloat(sim.MaxTime, 'f', -1, 64); {
	case ms > sim.MaxTime:
		return &mismatchError{text: text, bound: "at most " + most + " ms"}
	case ms < -sim.MaxTime:
		return &mismatchError{text: text, bound: "at least -" + most + " ms"}
	}
	return nil
}

// readTime reads a number of ms, which is on the clock of a replay unless it is read as the reference reads it.
func (s *scanner) readTime() (float64, error) {
	from := s.pos
	ms, err := s.readFloat()
	if err == nil && !s.compat && math.Abs(ms) > sim.MaxTime {
		err = boundTime(ms, excerpt.Cut(s.data[from:s.pos]))
	}
	return ms, err
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
		return s.rowError(r, "arrival is %v ms, want >= 0", early)
	case r.Input == 0 && len(r.IDs) == 0:
		return s.rowError(r, "input_length is 0 because hash_ids is empty, want > 0")
	case r.Input == 0:
		return s.rowError(r, "input_length is 0, want > 0")
	}
	_, err := s.order.Place(r)
	if s.order.beyond == 1 {
		s.order.beyond++
		s.o.warn(fmt.Sprintf("%s: more than %d sessions: the order of turns is checked in the first %d", s.Name, mostChecked, mostChecked))
	}
	return err
}
