package options

import (
	"cmp"
	"encoding/csv"
	"reflect"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/endpointpicker"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/sim"
)

// changeFlag is the name of the flag for a change during a replay.
const changeFlag = "change"

// chooserFlags returns the flags that select a router. The settings of the previous router do not apply to the new
// one.
func chooserFlags() []string { return []string{"router", policyFlag, pickerFlag} }

// routingFlags returns all flags for routing requests.
func routingFlags() []string {
	return slices.Concat(chooserFlags(), []string{"router-config", endpointpicker.SkipFlag}, RouterFlags())
}

// changeableFlags returns the flags that can change during a replay.
func changeableFlags() []string {
	return append([]string{"workers", "prefill-workers", "decode-workers", "admission", "faults", "speedup", "worker-speed", "prefill-worker-speed", "decode-worker-speed"}, routingFlags()...)
}

// ExpectChanges prepares for later calls of ChangeOf.
func (o *Options) ExpectChanges() { o.Cluster.mayChange = true }

// Unchanged returns spec as the flags define it without expected changes.
func (o *Options) Unchanged(spec replay.Spec) replay.Spec {
	if o.Cluster.alone {
		spec.Router = policy.RoundRobin
	}
	return spec
}

// fillChanges sets the changes during the replay in spec, ordered by time.
func (o *Options) fillChanges(spec *replay.Spec) error {
	if len(o.Cluster.changes) == 0 {
		return nil
	}
	if o.IsLive() || o.IsCluster() {
		return o.Only(changeFlag, "with --mode offline")
	}
	for _, text := range o.Cluster.changes {
		c, err := o.readChange(spec, text)
		if err != nil {
			return err
		}
		spec.Changes = append(spec.Changes, c)
	}
	stable.Sort(spec.Changes, func(a, b replay.Change) int { return cmp.Compare(a.At, b.At) })
	if err := spec.CheckChanges(); err != nil {
		return cli.Usagef("--%s: %v", changeFlag, err)
	}
	return nil
}

// readChange parses at=TIME,NAME=VALUE.
func (o *Options) readChange(spec *replay.Spec, text string) (replay.Change, error) {
	settings, err := ParseSettings(changeFlag, text)
	if err != nil {
		return replay.Change{}, err
	}
	i := slices.IndexFunc(settings, func(s plan.Setting) bool { return s.Name == "at" })
	if i < 0 || len(settings) == 1 {
		return replay.Change{}, cli.Usagef("--%s=%s: must be at=TIME and what changes then, as at=5m,workers=10", changeFlag, text)
	}
	at, err := cli.ParseInstant(settings[i].Value)
	if err != nil {
		return replay.Change{}, cli.Usagef("--%s=%s: at is %s, %v", changeFlag, text, settings[i].Value, err)
	}
	c, err := o.ChangeOf(spec, at, slices.Delete(settings, i, i+1))
	if err != nil {
		return c, cli.Usagef("--%s=%s: %v", changeFlag, text, err)
	}
	return c, nil
}

// ParseSettings parses NAME=VALUE,NAME=VALUE. Pairs with commas are quoted as in CSV.
func ParseSettings(flag, text string) ([]plan.Setting, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.LazyQuotes = true
	pairs, err := r.Read()
	if err != nil {
		return nil, cli.Usagef("--%s=%s: must be NAME=VALUE,NAME=VALUE with the names of flags", flag, text)
	}
	var all []plan.Setting
	known := NewCellOptions().Set
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		name = OwnName(known, strings.TrimPrefix(strings.TrimSpace(name), "--"))
		switch {
		case !ok || name == "":
			return nil, cli.Usagef("--%s=%s: %q is no setting, expected NAME=VALUE", flag, text, pair)
		case slices.ContainsFunc(all, func(s plan.Setting) bool { return s.Name == name }):
			return nil, cli.Usagef("--%s=%s: %s is given twice", flag, text, name)
		}
		all = append(all, plan.Setting{Name: name, Value: value})
	}
	return all, nil
}

// ChangeOf returns the change of spec at a time, for flags with other values. The flags of o define spec.
func (o *Options) ChangeOf(spec *replay.Spec, at sim.Time, set []plan.Setting) (replay.Change, error) {
	c := replay.Change{At: at}
	for _, s := range set {
		if err := o.checkChangeable(s.Name); err != nil {
			return c, err
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(set, func(s plan.Setting) bool { return slices.Contains(names, s.Name) })
	}
	if o.settings == nil {
		o.settings = o.Settings()
	}
	settings := slices.DeleteFunc(slices.Clone(o.settings), func(s plan.Setting) bool {
		return has(s.Name) || has(chooserFlags()...) && slices.Contains(routingFlags(), s.Name)
	})
	other, _, _, err := OptionsOf(append(settings, set...))
	if err != nil {
		return c, err
	}
	other.ExpectChanges()
	file := ""
	if spec.Trace != nil {
		file = spec.Trace.Path
	}
	after, err := other.Spec(file, spec.Mode)
	if err != nil {
		return c, err
	}
	if has("workers", "prefill-workers") {
		c.Workers = after.Pools[0].Count
	}
	if has("decode-workers") {
		c.Decode = after.Pools[1].Count
	}
	if has(routingFlags()...) {
		if !reflect.DeepEqual(after.PD, spec.PD) {
			return c, cli.Usagef("--%s: prompts go to prefill workers by the same rule during the whole replay, must be that of the file before", pickerFlag)
		}
		c.Routing = after.Choice()
	}
	if has("admission") {
		c.Admission = after.Topology.Admission
	}
	if has("faults") {
		c.Faults = after.Faults
	}
	if has("speedup") {
		c.Speedup = after.Speedup
	}
	if has("worker-speed", "prefill-worker-speed", "decode-worker-speed") {
		c.WorkerSpeeds = after.WorkerSpeeds
	}
	return c, nil
}

// checkChangeable returns an error for a flag that cannot change during a replay. The error suggests another flag if
// possible.
func (o *Options) checkChangeable(name string) error {
	all := changeableFlags()
	switch {
	case slices.Contains(all, name):
		return nil
	case name == "scale":
		return cli.Usagef("%s cannot change during a replay, only workers can", name)
	}
	if near := nearest.Ask(name, all); near != "" {
		return cli.Usagef("%s: no such setting%s", name, near)
	}
	return cli.Usagef("%s cannot change during a replay, must be %s", name, cli.Either(all))
}
