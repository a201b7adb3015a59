package main

import (
	"encoding/csv"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
)

// notInCells are flags of a replay that make no sense in many at once.
func notInCells() []string {
	return append(liveFlags(), "config", "help", "planner-config", "benchmark-granularity", "mode")
}

// newCellOptions are options with the flags that a cell may set, none of which
// writes anything.
func newCellOptions() *options {
	o := &options{}
	cmd := &cobra.Command{}
	o.fs = cmd.Flags()
	o.spelled = map[string]string{}
	o.fs.SetNormalizeFunc(o.ourName)
	for _, g := range o.replayGroups() {
		g.bind(o.fs)
	}
	o.fs.Var(&o.outputs.slo, "slo", "")
	o.fs.Float64Var(&o.outputs.attainment, "slo-attainment", 1, "")
	return o
}

// settable is an error when no cell can set the named flag.
func settable(fs *pflag.FlagSet, name string) error {
	if name == traceSetting {
		return nil
	}
	if f := fs.Lookup(name); f == nil || slices.Contains(notInCells(), f.Name) {
		return usagef("%s: no such flag of a replay", name)
	}
	return nil
}

// ownName is our name for a flag.
func ownName(fs *pflag.FlagSet, name string) string {
	if f := fs.Lookup(name); f != nil {
		return f.Name
	}
	return name
}

// settings are the flags of a replay that are set.
func (o *options) settings() []plan.Setting {
	known := newCellOptions().fs
	var all []plan.Setting
	o.fs.Visit(func(f *pflag.Flag) {
		if settable(known, f.Name) == nil {
			all = append(all, plan.Setting{Name: f.Name, Value: f.Value.String()})
		}
	})
	return all
}

// optionsOf are the options of a command line with these settings, the trace it
// names, and whether it would be replay trace or replay concurrency.
func optionsOf(settings []plan.Setting) (o *options, file string, mode loadgen.Mode, err error) {
	o = newCellOptions()
	for _, s := range settings {
		if s.Name == traceSetting {
			file = s.Value
			continue
		}
		if err := settable(o.fs, s.Name); err != nil {
			return nil, "", 0, err
		}
		if err := o.fs.Set(s.Name, s.Value); err != nil {
			var invalid *pflag.InvalidValueError
			if errors.As(err, &invalid) {
				err = invalid.Unwrap()
			}
			return nil, "", 0, usagef("%s=%s: want %s", s.Name, s.Value, wantedKind(o.fs.Lookup(s.Name).Value.Type(), err))
		}
	}
	if o.changed("max-in-flight") {
		mode = loadgen.Concurrency
	}
	return o, file, mode, nil
}

// parseAxis reads NAME=VALUE,VALUE; a value that holds a comma is quoted as in
// CSV.
func parseAxis(flag, text string) (plan.Axis, error) {
	name, values, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return plan.Axis{}, usagef("--%s=%s: want NAME=VALUE,VALUE with the name of a flag", flag, text)
	}
	known := newCellOptions().fs
	if err := settable(known, name); err != nil {
		return plan.Axis{}, usagef("--%s=%s: %v", flag, text, err)
	}
	r := csv.NewReader(strings.NewReader(values))
	r.LazyQuotes = true
	all, err := r.Read()
	if err != nil {
		return plan.Axis{}, usagef("--%s=%s: want at least one value after %s=", flag, text, name)
	}
	return plan.Axis{Name: ownName(known, name), Values: all}, nil
}
