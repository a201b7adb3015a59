package runs

import (
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/watch"
)

// showProgress lets people see how far a replay has come, in a line or in all that --watch shows. The result ends that,
// and is told whether the replay has come to its end.
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

// How long what is shown of a replay stays, unless --watch says so.
const (
	redraw = 250 * time.Millisecond // on a terminal
	relog  = 10 * time.Second       // in a log
)

// watch is showProgress for --watch. The view is shown the replay on the replay's own goroutine and nobody is shown the
// view, so that nothing depends on it.
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
