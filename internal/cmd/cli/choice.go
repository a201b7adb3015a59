package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/sim"
)

// Choice is a flag with a fixed set of names as values.
type Choice struct {
	Names  []string // the first name is the default
	Hidden []string // alternative names, at the index of the name with the same meaning
	Value  string
}

func (c *Choice) String() string { return c.Value }
func (c *Choice) Type() string   { return "name" }

// Choices returns the valid names.
func (c *Choice) Choices() []string { return c.Names }

func (c *Choice) Set(text string) error {
	for i, name := range c.Names {
		if text == name || (i < len(c.Hidden) && c.Hidden[i] != "" && text == c.Hidden[i]) {
			c.Value = name
			return nil
		}
	}
	return errors.New("must be " + Either(c.Names) + nearest.Ask(text, c.Names))
}

// offerNames registers shell completion for the names that a flag accepts.
func offerNames(cmd *cobra.Command, f *pflag.Flag) {
	var names []string
	then := cobra.ShellCompDirectiveNoFileComp
	switch v := f.Value.(type) {
	case interface{ Choices() []string }:
		names = v.Choices()
	case interface{ Beginnings() []string }:
		names, then = v.Beginnings(), then|cobra.ShellCompDirectiveNoSpace
	}
	if len(names) == 0 {
		return
	}
	if err := cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(names, then)); err != nil {
		panic(err)
	}
}

// Either joins names with commas, and "or" before the last name.
func Either(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Names converts names of any string type to strings.
func Names[T ~string](all []T) []string {
	names := make([]string, len(all))
	for i, name := range all {
		names[i] = string(name)
	}
	return names
}

// Hide hides flags from the help.
func Hide(fs *pflag.FlagSet, names ...string) {
	for _, name := range names {
		fs.Lookup(name).Hidden = true
	}
}

// HideAll hides all flags except --help from the help.
func HideAll(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "help" })
}

// Instant is a flag with a time on the simulated clock.
type Instant struct {
	At   sim.Time
	text string // the text of the flag
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

// ParseInstant parses a time: a number in ms, a duration with a unit, or hours and minutes such as 17:05, counted
// from 0:00.
func ParseInstant(text string) (sim.Time, error) {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil {
		var d time.Duration
		if d, err = time.ParseDuration(readClock(text)); err == nil {
			ms = float64(d) / 1e6
		}
	}
	if err != nil || !(ms >= 0) || math.IsInf(ms, 0) {
		return 0, errors.New("must be ms, or a time such as 90s or 10m")
	}
	return sim.Time(ms), nil
}

// readClock returns 17h05m for 17:05 and 17h05m30s for 17:05:30. readClock returns any other text unchanged.
func readClock(text string) string {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return text
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil || i > 0 && (n > 59 || len(part) != 2) {
			return text
		}
		parts[i] += string("hms"[i])
	}
	return strings.Join(parts, "")
}
