package options

import (
	"errors"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// signalPart is a property of the age of a signal, and the flag that sets it.
type signalPart struct {
	flag, help string
	of         func(*router.Age) *sim.Time
}

func signalParts() [2]signalPart {
	return [2]signalPart{
		{"signal-delay", "`age` of worker signals when the router reads them: 500ms for all, or per signal, as index=500ms,waiting=1s; index=never: KV events do not reach the router (docs/policies.md)", func(a *router.Age) *sim.Time { return &a.Delay }},
		{"signal-interval", "`time` between two reads of worker signals: 1s for all, or per signal, as waiting=1s,kv_usage=5s", func(a *router.Age) *sim.Time { return &a.Interval }},
	}
}

// fillSignals sets the ages of signals in spec.
func (c *cluster) fillSignals(spec *replay.Spec) error {
	if c.signals == [2]string{} {
		return nil
	}
	if c.IsLive() || c.IsCluster() {
		return c.Only(c.FirstChanged(signalParts()[0].flag, signalParts()[1].flag), "with --mode offline: signal delays are not supported in real time")
	}
	if policy.IsListed(spec.Router) && c.routerInfo().Caches && !spec.Router.Info().Caches && spec.Admission == nil {
		return nil // a single worker requires no choice
	}
	if text, ok := spec.Router.(*policy.Text); ok {
		spec.Signals = text.Signals
	}
	for i, part := range signalParts() {
		if c.signals[i] == "" {
			continue
		}
		if err := c.readSignalFlag(spec, part, c.signals[i]); err != nil {
			return cli.Usagef("--%s=%s: %v", part.flag, c.signals[i], err)
		}
		if err := spec.CheckSignals(); err != nil {
			return cli.Usagef("--%s=%s: %v", part.flag, c.signals[i], err)
		}
	}
	return nil
}

// readSignalFlag parses a property of signal ages. The property applies to the named signals, or to all signals of
// workers.
func (c *cluster) readSignalFlag(spec *replay.Spec, part signalPart, text string) error {
	gated := policy.IsGated(spec.Router)
	set := func(s router.Signal, to sim.Time) {
		age := spec.Signals.AgeOf(s, gated)
		*part.of(&age) = to
		spec.Signals.Set(s, age)
	}
	if at, err := cli.ParseInstant(text); err == nil {
		looks := spec.ListSignals()
		told := slices.DeleteFunc(slices.Clone(looks), func(s router.Signal) bool { return s == router.Loads })
		switch {
		case len(looks) == 0:
			return errors.New("the router reads no signal, use another one")
		case len(told) == 0:
			return excerpt.Errorf("the router reads no signal of workers: use %s=%s for its own choices, or remove the flag", router.Loads, text)
		}
		for _, s := range told {
			set(s, at)
		}
		return nil
	}
	names := cli.Names(router.AllSignals())
	for word := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return excerpt.Errorf("%q, must be a time such as 500ms, or NAME=TIME with %s", word, cli.Either(names))
		}
		if !slices.Contains(names, name) {
			return excerpt.Errorf("no signal is %s, must be %s%s", name, cli.Either(names), nearest.Ask(name, names))
		}
		if value == files.Never && part.flag == signalParts()[0].flag {
			spec.Signals.Set(router.Signal(name), router.Age{Never: true})
			continue
		}
		at, err := cli.ParseInstant(value)
		if err != nil {
			return excerpt.Errorf("%s: %w", word, err)
		}
		set(router.Signal(name), at)
	}
	return nil
}
