package calibrations

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/internal/excerpt"
)

// warmup is the flag --warmup: the requests of this time at the start of a run are replayed and not compared.
type warmup struct {
	time  time.Duration
	given bool
}

func (w *warmup) bind(fs *pflag.FlagSet) {
	fs.Var(w, "warmup", "warm-up `time` from the start, as 15s: requests of this time are not compared")
}

func (w *warmup) Type() string { return "duration" }

func (w *warmup) String() string {
	if !w.given {
		return ""
	}
	return w.time.String()
}

// Set reads a duration.
func (w *warmup) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return excerpt.Errorf("%q, must be a duration of at least 0 such as 15s", text)
	}
	w.time, w.given = d, true
	return nil
}

// apply marks the start of runs as warm-up, if --warmup is set.
func (w *warmup) apply(runs ...*calibrate.Measured) error {
	for _, m := range runs {
		if !w.given {
			return nil
		}
		if err := m.Ignore(w.time.Seconds()); err != nil {
			return fmt.Errorf("--warmup=%v: %w", w.time, err)
		}
	}
	return nil
}
