package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/sim"
)

// limits holds the flags that leave requests out.
type limits struct {
	until    instant
	oversize choice
}

func (l *limits) bind(fs *pflag.FlagSet) {
	l.oversize = choice{names: []string{"error", "reject"}, value: "error"}
	fs.Var(&l.until, "until", "end the run at this `time` of its clock: ms, or with a unit, as 90s or 10m")
	fs.Var(&l.oversize, "oversize", "`what` to do about requests that can never run: error ends the run\nbefore it begins, reject leaves them out")
}

// fillLimits says in spec which requests are left out.
func (o *options) fillLimits(spec *replay.Spec) error {
	if o.changed("until") && o.limits.until.at == 0 {
		return o.refuse("until", "a time above 0")
	}
	spec.Until = o.limits.until.at
	spec.Reject = o.limits.oversize.value == "reject"
	return nil
}

// instant is a flag that takes a time on the clock of the run.
type instant struct {
	at   sim.Time
	text string // as given
}

func (i *instant) String() string { return i.text }
func (i *instant) Type() string   { return "time" }

func (i *instant) Set(text string) error {
	at, err := parseInstant(text)
	if err == nil {
		*i = instant{at, text}
	}
	return err
}

// parseInstant reads ms, or a number of other units.
func parseInstant(text string) (sim.Time, error) {
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

// explain adds to the error of a run what can be done about it.
func explain(err error) error {
	if errors.As(err, new(*offline.OversizeError)) {
		return fmt.Errorf("%w; --oversize=reject leaves them out", err)
	}
	return err
}

// mostListed is how many rejected requests are listed.
const mostListed = 10

// listRejected says which requests were left out, and why.
func listRejected(w io.Writer, all []offline.Rejection) {
	for i, r := range all {
		if i == mostListed {
			fmt.Fprintf(w, "replay: rejected: and %d more\n", len(all)-i)
			return
		}
		fmt.Fprintf(w, "replay: rejected: %s: %v\n", r.Place, r.Err)
	}
}

// unfinished counts the requests of a workload of total requests that have not
// got all their tokens and were not rejected either.
func unfinished(r *offline.Result, total int) int {
	left := total - len(r.Rejected)
	for _, q := range r.Collector.Requests() {
		if q.OutputTokens > 0 && q.Tokens >= q.OutputTokens {
			left--
		}
	}
	return left
}
