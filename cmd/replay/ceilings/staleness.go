package ceilings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// agesFlag is the name of the flag for the ages of signals.
const agesFlag = "signal-ages"

// readAges reads a list of times in increasing order, or "none".
func readAges(text string) ([]sim.Time, error) {
	if text == "none" {
		return nil, nil
	}
	var all []sim.Time
	for word := range strings.SplitSeq(text, ",") {
		at, err := cli.ParseInstant(word)
		switch {
		case err != nil || at == 0:
			return nil, cli.Usagef("--%s=%s: %q, must be times above 0 such as 100ms,1s, or none", agesFlag, text, word)
		case len(all) > 0 && at <= all[len(all)-1]:
			return nil, cli.Usagef("--%s=%s: %s is not above the time before it", agesFlag, text, word)
		}
		all = append(all, at)
	}
	return all, nil
}

// withStaleSignals returns replays of a policy with signals of these ages. The signals are the metrics that workers
// report. For a policy that reads no such metric, the record of the router's choices ages instead, as with
// several routers.
func withStaleSignals(spec replay.Spec, ages []sim.Time) []bounded {
	looks := spec.ListSignals()
	if told := slices.DeleteFunc(slices.Clone(looks), func(s router.Signal) bool { return s == router.Loads }); len(told) > 0 {
		looks = told
	}
	if len(looks) == 0 {
		return nil
	}
	name := "signals"
	if len(looks) == 1 {
		name = string(looks[0])
	}
	var all []bounded
	now := router.Signals{}
	if text, ok := spec.Router.(*policy.Text); ok {
		now = text.Signals
	}
	for _, age := range ages {
		stale := spec
		for _, s := range looks {
			was := now.AgeOf(s, policy.IsGated(spec.Router))
			was.Delay, was.Never = age, false
			stale.Signals.Set(s, was)
		}
		label := fmt.Sprintf("  %s %s s old", name, strconv.FormatFloat(float64(age)/1000, 'g', -1, 64))
		all = append(all, bounded{name: label, spec: stale, stale: looks, age: age})
	}
	return all
}
