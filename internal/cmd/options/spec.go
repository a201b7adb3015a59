package options

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
)

// SpecOf returns Spec for the arguments of a command line.
func (o *Options) SpecOf(args []string, mode loadgen.Mode) (replay.Spec, error) {
	if err := o.Output.Watch.checkFiles(args); err != nil {
		return replay.Spec{}, err
	}
	file, err := TraceFile(args)
	if err != nil {
		return replay.Spec{}, err
	}
	return o.Spec(file, mode)
}

// Spec returns the replay that the flags describe. file is "" if the command line names no trace.
func (o *Options) Spec(file string, mode loadgen.Mode) (replay.Spec, error) {
	spec := replay.Spec{Mode: mode}
	if err := o.Config.Apply(o); err != nil {
		return spec, err
	}
	spec.Seed, spec.Compat = o.Seed, o.compat != ""
	spec.PreemptedApart = !o.Reference && !spec.Compat
	if o.compat != "" && o.compat != CompatRelease {
		return spec, o.Refuse("compat", CompatRelease)
	}
	if !o.Reference {
		if err := cmp.Or(o.input.checkSource(file), o.input.checkInput(file, mode), o.checkCluster()); err != nil {
			return spec, err
		}
	} else if o.Changed("max-in-flight") {
		spec.Mode = loadgen.Concurrency
	}
	fillInput := func(spec *replay.Spec) error {
		o.workload = spec
		return cmp.Or(o.input.fillInput(spec, file), o.input.fillClasses(spec))
	}
	for _, fill := range []func(*replay.Spec) error{
		fillInput, o.input.checkUnsigned, o.fillEngines, o.Cluster.fillScale, o.Cluster.fillAutoscale, o.Cluster.fillFaults, o.Cluster.fillSpeeds, o.fillPD, o.fillRouter, o.Cluster.fillAdmission, o.Cluster.fillSignals, o.client.fillClient, o.Cluster.fillEstimator, o.Limits.fillLimits, o.Limits.fillWindow, o.fillChanges, o.Cluster.fillWarm, o.streaming.fillStream,
	} {
		if err := fill(&spec); err != nil {
			return spec, err
		}
	}
	if o.Changed("planner-config") {
		return spec, cli.Usagef("--planner-config: this program has no planner, must be a run without it")
	}
	return spec, o.checkLive()
}

// TraceFile returns the only path in args, or "".
func TraceFile(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", nil
	case len(args) > 1:
		return "", cli.Usagef("%s: must be at most one trace file", strings.Join(args, " "))
	case args[0] == "":
		return "", cli.Usagef(`"": expected the name of a trace file`)
	}
	return args[0], nil
}

// limits has the flags that exclude requests.
type limits struct {
	*shared
	Until    cli.Instant
	oversize cli.Choice
	window   window
	recycle  bool
}

func (l *limits) bindFlags(fs *pflag.FlagSet) {
	l.oversize = cli.Choice{Names: []string{"error", "reject"}, Value: "error"}
	fs.Var(&l.Until, "until", "end the run at this `time` of its clock: ms, or with a unit, as 90s or 10m")
	l.bindWindow(fs)
	fs.Var(&l.oversize, "oversize", "`rule` for requests that can never run: error (the replay does not start)\nor reject (they are rejected and counted)")
}

// fillLimits sets in spec which requests are excluded.
func (l *limits) fillLimits(spec *replay.Spec) error {
	if l.Changed("until") && l.Until.At == 0 {
		return l.Refuse("until", "a time above 0")
	}
	spec.Until = l.Until.At
	spec.Reject = l.oversize.Value == "reject"
	return nil
}

// acceptNames makes cmd accept the names of flags in other tools.
func (o *Options) acceptNames(cmd *cobra.Command) {
	o.Spelled, o.others = map[string]string{}, cli.OtherNames()
	cmd.Flags().SetNormalizeFunc(o.ourName)
}

// ourName converts the name of a flag in another tool to the name in replay, and records the name that was used.
func (o *Options) ourName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if own, ok := o.others[name]; ok {
		o.Spelled[own] = name
		name = own
	}
	return pflag.NormalizedName(name)
}

// bindReferenceOnly adds flags of the reference that are accepted and hidden.
func bindReferenceOnly(fs *pflag.FlagSet) {
	fs.String("planner-config", "", "")
	fs.Int("benchmark-granularity", 8, "")
	cli.Hide(fs, "planner-config", "benchmark-granularity")
}
