package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/report/timeline"
	"github.com/replay-llm/replay/sim"
)

// drawing holds the flags of a timeline.
type drawing struct {
	path     string
	from, to instant
	request  string
}

func (d *drawing) bind(fs *pflag.FlagSet) {
	fs.StringVar(&d.path, "timeline", "", "write what every worker did when to `FILE`, for ui.perfetto.dev")
	fs.Var(&d.from, "timeline-from", "leave out what ends before this `time` of the run's clock")
	fs.Var(&d.to, "timeline-to", "leave out what begins at or after this `time` of the run's clock")
	fs.StringVar(&d.request, "timeline-request", "", "show one `REQUEST` alone: its id, or :LINE of the trace")
}

// cut says what of a timeline is wanted.
func (o *options) cut() (timeline.Options, error) {
	d := &o.output.drawing
	cut := timeline.Options{From: d.from.at, To: d.to.at}
	if !o.changed("timeline") {
		if name := o.firstChanged("timeline-from", "timeline-to", "timeline-request"); name != "" {
			return cut, o.only(name, "with --timeline")
		}
		return cut, nil
	}
	if d.path == "" {
		return cut, o.refuse("timeline", "the name of a file")
	}
	if o.changed("timeline-to") && d.to.at <= d.from.at {
		return cut, o.refuse("timeline-to", "more than --timeline-from")
	}
	if !o.changed("timeline-request") {
		return cut, nil
	}
	var err error
	if cut.Request, err = parseChoice(d.request); err != nil {
		return cut, o.refuse("timeline-request", err.Error())
	}
	return cut, nil
}

// parseChoice reads the id of a request, or its line behind a colon; a file name
// may stand before that.
func parseChoice(text string) (*timeline.Choice, error) {
	want := errors.New("the id of a request, or :LINE of the trace")
	_, line, isLine := cutLast(text, ':')
	if isLine {
		n, err := strconv.ParseInt(line, 10, 32)
		if err != nil || n < 1 {
			return nil, want
		}
		return &timeline.Choice{Line: int32(n)}, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return nil, want
	}
	return &timeline.Choice{ID: sim.RequestID(n)}, nil
}

func cutLast(text string, at byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(text, at); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, "", false
}

// draw makes the run that replay does leave a timeline, when one is wanted. The
// file appears when the run is over.
func (o *options) draw(watching observers, replay func(observers) (*offline.Result, error)) (*offline.Result, error) {
	cut, err := o.cut()
	if err != nil {
		return nil, err
	}
	if !o.changed("timeline") {
		return replay(watching)
	}
	var result *offline.Result
	var ended error
	err = collector.WriteFile(o.output.drawing.path, func(out io.Writer) error {
		t := timeline.New(out, 0, cut)
		if result, ended = replay(append(watching, t)); ended != nil {
			return ended
		}
		return t.Close()
	})
	if err != nil && ended == nil {
		err = fmt.Errorf("--timeline: %w", err)
	}
	return result, err
}
