package options

import (
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/replay"
)

// limits holds the flags that leave requests out.
type limits struct {
	Until    cli.Instant
	oversize cli.Choice
}

func (l *limits) bindFlags(fs *pflag.FlagSet) {
	l.oversize = cli.Choice{Names: []string{"error", "reject"}, Value: "error"}
	fs.Var(&l.Until, "until", "end the run at this `time` of its clock: ms, or with a unit, as 90s or 10m")
	fs.Var(&l.oversize, "oversize", "`what` to do about requests that can never run: error ends the run\nbefore it begins, reject leaves them out")
}

// fillLimits enters into spec which requests are left out.
func (o *Options) fillLimits(spec *replay.Spec) error {
	if o.Changed("until") && o.Limits.Until.At == 0 {
		return o.Refuse("until", "a time above 0")
	}
	spec.Until = o.Limits.Until.At
	spec.Reject = o.Limits.oversize.Value == "reject"
	return nil
}
