package options

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// windowFlag is the name of the flag for the time window of the report.
const windowFlag = "window"

// recycleFlag is the name of the flag that repeats the workload in closed loop.
const recycleFlag = "recycle"

// window is a flag for a time window of the run.
type window struct {
	of   collector.Window
	text string // text of the flag
}

func (w *window) String() string { return w.text }
func (w *window) Type() string   { return "window" }

// Set parses FROM,TO. Either time may be omitted.
func (w *window) Set(text string) error {
	from, to, ok := strings.Cut(text, ",")
	from, to = strings.TrimSpace(from), strings.TrimSpace(to)
	if !ok || from == "" && to == "" {
		return errors.New("must be FROM,TO, two times of the run's clock, as 1m,10m; one may be left out, as 1m,")
	}
	var of collector.Window
	for _, end := range []struct {
		text string
		at   *sim.Time
	}{{from, &of.From}, {to, &of.To}} {
		if end.text == "" {
			continue
		}
		at, err := cli.ParseInstant(end.text)
		if err != nil {
			return errors.New(end.text + ": " + err.Error())
		}
		*end.at = at
	}
	if to != "" && of.To <= of.From {
		return errors.New("must be FROM,TO with TO after FROM")
	}
	*w = window{of, text}
	return nil
}

func (l *limits) bindWindow(fs *pflag.FlagSet) {
	fs.BoolVar(&l.recycle, recycleFlag, false, "closed loop: repeat the workload until the end of --window")
	fs.Var(&l.window, windowFlag, "report only on requests that arrive between two times of the run's clock,\n`FROM,TO`, as 1m,10m; either time is optional")
}

// fillWindow sets the time window of the report in spec.
func (l *limits) fillWindow(spec *replay.Spec) error {
	if name := l.FirstChanged(windowFlag, recycleFlag); name == "" {
		return nil
	} else if l.IsLive() || l.IsCluster() {
		return l.Only(name, "with --mode offline")
	}
	if until := l.Until.At; until > 0 && l.window.of.From >= until {
		return l.Refuse(windowFlag, "a window that begins before --until")
	}
	spec.Window, spec.Recycle = l.window.of, l.recycle
	return l.Check(
		cli.Needs(spec.Mode == loadgen.Concurrency, "with replay concurrency", recycleFlag),
		cli.Needs(spec.Window.To > 0, "with --window FROM,TO, which has an end", recycleFlag),
		cli.Needs(!spec.Recycle, "without --recycle, which continues to the end of --window", "until"),
		cli.Needs(!spec.Compat, "without --compat", recycleFlag),
		cli.Needs(!policy.Is[*policy.Process](spec.Router), "without --policy-process: a recycled workload is replayed more than once", recycleFlag),
	)
}
