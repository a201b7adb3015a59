package options

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/report/timeline"
	"github.com/replay-llm/replay/sim"
)

// drawing holds the flags of a timeline.
type drawing struct {
	Path     string
	from, to cli.Instant
	request  string
}

func (d *drawing) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&d.Path, "timeline", "", "write what every worker did when to `FILE`, for ui.perfetto.dev")
	fs.Var(&d.from, "timeline-from", "leave out what ends before this `time` of the run's clock")
	fs.Var(&d.to, "timeline-to", "leave out what begins at or after this `time` of the run's clock")
	fs.StringVar(&d.request, "timeline-request", "", "show one `REQUEST` alone: its id, or :LINE of the trace")
}

// Cut returns what of a timeline is wanted.
func (o *Options) Cut() (timeline.Options, error) {
	d := &o.Output.Drawing
	cut := timeline.Options{From: d.from.At, To: d.to.At}
	if !o.Changed("timeline") {
		if name := o.FirstChanged("timeline-from", "timeline-to", "timeline-request"); name != "" {
			return cut, o.Only(name, "with --timeline")
		}
		return cut, nil
	}
	if d.Path == "" {
		return cut, o.Refuse("timeline", "the name of a file")
	}
	if o.Changed("timeline-to") && d.to.At <= d.from.At {
		return cut, o.Refuse("timeline-to", "more than --timeline-from")
	}
	if !o.Changed("timeline-request") {
		return cut, nil
	}
	var err error
	if cut.Request, err = parseChoice(d.request); err != nil {
		return cut, o.Refuse("timeline-request", err.Error())
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
