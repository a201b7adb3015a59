package runs

import (
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/watch"
)

// showProgress shows the progress of a replay as a line, or as the view of --watch. The returned function ends the
// display. The argument ended reports whether the replay reached its end.
func (r *run) showProgress(streams *replay.Streams) (end func(ended bool)) {
	if r.o.Output.Watch.On {
		return r.watch(streams)
	}
	bar := cli.NewProgress(r.s.Err, "requests")
	if bar != nil {
		streams.Progress = bar.Show
	}
	return func(bool) { bar.Clear() }
}

// Default intervals between updates of the view.
const (
	redraw = 250 * time.Millisecond // interval between updates on a terminal
	relog  = 10 * time.Second       // interval between lines in a log
)

// watch is showProgress for --watch. The view observes the replay on the goroutine of the replay, and no result
// depends on the view.
func (r *run) watch(streams *replay.Streams) (end func(ended bool)) {
	view := new(watch.View)
	s := &watch.Screen{View: view, Out: r.s.Err, Every: relog, Now: time.Now, Prefix: "replay: "}
	if t := cli.TerminalOf(r.s.Err); t != nil {
		s.Every, s.Colors = redraw, t.Colors
		s.Size = func() watch.Size {
			columns, lines := t.Size()
			return watch.Size{Columns: columns, Lines: lines}
		}
	}
	if every := r.o.Output.Watch.Every; every > 0 {
		s.Every = every
	}
	streams.Progress = s.Progress
	if streams.Observer == nil {
		streams.Observer = view
	} else {
		streams.Observer = observers{streams.Observer, view}
	}
	warn := streams.Warn
	streams.Warn = func(text string) {
		s.Clear()
		warn(text)
	}
	return s.Close
}
