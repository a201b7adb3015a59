package main

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// options are all flags of a command that runs a replay, in groups.
type options struct {
	fs *pflag.FlagSet
	// spelled holds the names of flags as they were given, where that is not
	// their own name.
	spelled map[string]string
	// reference says that the command line is the reference's: flags that it
	// takes without a use for them are no errors then, and values out of range
	// are refused input.
	reference bool
	compat    string
	seed      uint64
	config    config
	input     input
	cluster   cluster
	engine    engine
	router    routing
	output    output
	limits    limits
	outputs   outputs
	live      live
	processes processes
}

// bind adds all flags to cmd.
func (o *options) bind(cmd *cobra.Command) {
	o.fs = cmd.Flags()
	o.fs.SortFlags = false
	o.spelled = map[string]string{}
	o.fs.SetNormalizeFunc(o.ourName)
	groups := sections(o.fs, []group{
		{"Workload", o.input.bind},
		{leftOpenTitle, o.input.bindOpen},
		{"Cluster", o.cluster.bind},
		{"Engines (these win over --engine-args; most take prefill- or decode- in front, as --decode-num-gpu-blocks)", o.engine.bind},
		{"KV router (these win over --router-config)", o.router.bind},
		{"Report", o.output.bind},
		{"Requests, objectives and records of the run", o.outputs.bind},
		{"Real time (with --mode online; the last two with --mode cluster, too)", o.live.bind},
		{"Workers that are processes (with --mode cluster; the cluster's flags of replay worker work here, too)", o.processes.bind},
		{"Run", o.bindRun},
	})
	if o.reference {
		hideAll(o.fs)
	} else {
		setUsage(cmd, groups)
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return o.flagError(err) })
	o.fs.VisitAll(func(f *pflag.Flag) { complete(cmd, f) })
}

func (o *options) bindRun(fs *pflag.FlagSet) {
	fs.StringVar(&o.compat, "compat", "", "repeat the results of a `release` of the reference to the last digit: "+compatRelease)
	fs.Uint64Var(&o.seed, "seed", defaultSeed, "seed of whatever is drawn, a `number`")
	o.limits.bind(fs)
	o.config.bind(fs)
	bindReferenceOnly(fs)
	fs.BoolP("help", "h", false, "print this help")
}

// defaultSeed is that of everything drawn, unless one is given.
const defaultSeed = 42

// compatRelease is the only release of the reference that can be repeated.
const compatRelease = "dynamo-1.2"

// changed says that a flag was given, on the command line or in the config.
func (o *options) changed(name string) bool { return o.fs.Changed(name) }

// refuse is the error of a value that was given by a flag.
func (o *options) refuse(name, want string) error {
	return o.refuseValue(name, o.fs.Lookup(name).Value.String(), want)
}

// refuseValue is refuse with the value as the complaint should show it.
func (o *options) refuseValue(name, value, want string) error {
	if place, ok := o.config.places[name]; ok {
		return usagef("%s: %s: %s: want %s", place, name, value, want)
	}
	return usagef("--%s=%s: want %s", o.name(name), value, want)
}

// only is the error of a flag that has no effect but where it says.
func (o *options) only(name, where string) error {
	if place, ok := o.config.places[name]; ok {
		return usagef("%s: %s: only %s", place, name, where)
	}
	return usagef("--%s: only %s", o.name(name), where)
}

// name is a flag's name as it was given.
func (o *options) name(flag string) string {
	if name, ok := o.spelled[flag]; ok {
		return name
	}
	return flag
}

// firstChanged is the first of names that was given, or "".
func (o *options) firstChanged(names ...string) string {
	for _, name := range names {
		if o.changed(name) {
			return name
		}
	}
	return ""
}

// bound is the least value of a flag.
type bound struct {
	name  string
	value float64
	least float64
}

// checkBounds refuses the first given flag whose value is below its bound, not
// a number or infinite.
func (o *options) checkBounds(bounds ...bound) error {
	for _, b := range bounds {
		if o.changed(b.name) && (!(b.value >= b.least) || math.IsInf(b.value, 0)) {
			return o.refuse(b.name, "at least "+strconv.FormatFloat(b.least, 'f', -1, 64))
		}
	}
	return nil
}

// flagError says in our words why a command line cannot be read.
func (o *options) flagError(err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		if long := unknown.GetSpecifiedShortnames(); o.fs.Lookup(long) != nil {
			return usagef("-%s: no such flag, want --%s", long, long)
		}
		dashes := strings.Repeat("-", min(2, len(unknown.GetSpecifiedName())))
		return usagef("%s%s: no such flag", dashes, unknown.GetSpecifiedName())
	case errors.As(err, &missing):
		return usagef("--%s: want a value", missing.GetSpecifiedName())
	case errors.As(err, &invalid):
		return usagef("--%s=%s: want %s", o.name(invalid.GetFlag().Name), invalid.GetValue(), wantedKind(invalid.GetFlag().Value.Type(), err))
	}
	return &usageError{err.Error()}
}

// wantedKind names what a flag of the given type takes.
func wantedKind(kind string, err error) string {
	switch kind {
	case "int":
		return "an integer"
	case "uint64":
		return "an integer from 0 to 18446744073709551615"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	}
	_, want, _ := strings.Cut(err.Error(), "want ")
	return want
}

// choice is a flag that takes one of a few names.
type choice struct {
	names  []string // the first is the default
	hidden []string // further names, of the same meaning as those of names in the same place
	value  string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "name" }

func (c *choice) Set(text string) error {
	for i, name := range c.names {
		if text == name || (i < len(c.hidden) && c.hidden[i] != "" && text == c.hidden[i]) {
			c.value = name
			return nil
		}
	}
	return errors.New("want " + either(c.names))
}

// complete lets the shell offer the names that a flag takes.
func complete(cmd *cobra.Command, f *pflag.Flag) {
	var names []string
	switch v := f.Value.(type) {
	case *choice:
		names = v.names
	case *setting:
		names = v.names
	}
	if len(names) == 0 {
		return
	}
	if err := cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// either lists names with "or" before the last.
func either(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// hide leaves flags out of the help.
func hide(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		cmd.Flags().Lookup(name).Hidden = true
	}
}

// hideAll leaves all flags out of the help but that for it.
func hideAll(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "help" })
}
