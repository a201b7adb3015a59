package options

import (
	"strings"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
)

// SpecOf is Spec for a command line with these arguments.
func (o *Options) SpecOf(args []string, mode loadgen.Mode) (replay.Spec, error) {
	file, err := TraceFile(args)
	if err != nil {
		return replay.Spec{}, err
	}
	return o.Spec(file, mode)
}

// Spec turns flags into what is to be run; file is "" when no trace is named.
func (o *Options) Spec(file string, mode loadgen.Mode) (replay.Spec, error) {
	spec := replay.Spec{Mode: mode}
	if err := o.Config.Apply(o); err != nil {
		return spec, err
	}
	spec.Seed, spec.Compat = o.Seed, o.compat != ""
	if o.compat != "" && o.compat != compatRelease {
		return spec, o.Refuse("compat", compatRelease)
	}
	if !o.Reference {
		if err := o.checkOurs(file, mode); err != nil {
			return spec, err
		}
	}
	if o.Reference && o.Changed("max-in-flight") {
		spec.Mode = loadgen.Concurrency
	}
	if err := o.fillInput(&spec, file); err != nil {
		return spec, err
	}
	if o.Reference {
		if err := o.checkUnsigned(); err != nil {
			return spec, err
		}
	}
	if err := o.fillCluster(&spec); err != nil {
		return spec, err
	}
	if err := o.fillLimits(&spec); err != nil {
		return spec, err
	}
	if err := o.checkPlanner(); err != nil {
		return spec, err
	}
	return spec, o.checkLive()
}

// checkOurs refuses what the reference would overlook.
func (o *Options) checkOurs(file string, mode loadgen.Mode) error {
	if err := o.checkSource(file); err != nil {
		return err
	}
	if err := o.checkInput(file, mode); err != nil {
		return err
	}
	return o.checkCluster()
}

// TraceFile is the one file named in args, or "".
func TraceFile(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", nil
	case len(args) > 1:
		return "", cli.Usagef("%s: want at most one trace file", strings.Join(args, " "))
	case args[0] == "":
		return "", cli.Usagef(`"": want the name of a trace file`)
	}
	return args[0], nil
}
