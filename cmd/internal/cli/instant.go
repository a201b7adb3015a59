package cli

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/replay-llm/replay/sim"
)

// Instant is a flag that takes a time on the clock of the run.
type Instant struct {
	At   sim.Time
	text string // as given
}

func (i *Instant) String() string { return i.text }
func (i *Instant) Type() string   { return "time" }

func (i *Instant) Set(text string) error {
	at, err := ParseInstant(text)
	if err == nil {
		*i = Instant{at, text}
	}
	return err
}

// ParseInstant reads ms, or a number of other units.
func ParseInstant(text string) (sim.Time, error) {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var d time.Duration
		if d, err = time.ParseDuration(text); err == nil {
			ms = float64(d) / 1e6
		}
	}
	if err != nil || !(ms >= 0) || math.IsInf(ms, 0) {
		return 0, errors.New("want ms, or a time such as 90s or 10m")
	}
	return sim.Time(ms), nil
}
