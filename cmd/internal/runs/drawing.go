package runs

import (
	"fmt"
	"io"

	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/timeline"
)

// drawing is the timeline of a replay, when one is wanted.
type drawing struct {
	replay.NoOutput
	o    *options.Options
	cut  timeline.Options
	line *timeline.Writer
}

// Open refuses a timeline that makes no sense.
func (d *drawing) Open(*replay.Session) (err error) {
	d.cut, err = d.o.Cut()
	return err
}

// Around writes the timeline while the replay runs. The file appears when it is
// over.
func (d *drawing) Around(run func() error) error {
	if !d.o.Changed("timeline") {
		return run()
	}
	var ended error
	err := collector.WriteFile(d.o.Output.Drawing.Path, func(out io.Writer) error {
		d.line = timeline.New(out, 0, d.cut)
		if ended = run(); ended != nil {
			return ended
		}
		return d.line.Close()
	})
	if err != nil && ended == nil {
		err = fmt.Errorf("--timeline: %w", err)
	}
	return err
}

// Observers returns the timeline.
func (d *drawing) Observers() []harness.Observer {
	if d.line == nil {
		return nil
	}
	return []harness.Observer{d.line}
}
