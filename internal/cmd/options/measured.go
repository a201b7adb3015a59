package options

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/endpointpicker"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/scheduler/timing"
)

// BindMeasured adds the flags for a replay of a measured run. The requests are those of the run.
func (o *Options) BindMeasured(cmd *cobra.Command, own ...cli.Group) {
	o.BindReplay(cmd, own...)
	cli.Hide(cmd.Flags(), givenByRun()...)
}

// MaxInFlight returns the value of --max-in-flight. 0 means that it is not set.
func (o *Options) MaxInFlight() int { return o.input.maxInFlight }

// givenByRun returns the flags that are not supported for measured runs, because the run defines them.
func givenByRun() []string {
	names := []string{"mode", "scale", "autoscale", "faults", "until", windowFlag, recycleFlag, "oversize", "compat", "seed", "warm-caches"}
	names = append(names, clientFlags()...)
	in := &input{}
	for _, bind := range []func(*pflag.FlagSet){in.bindFlags, in.bindOpen} {
		names = append(names, cli.BindNamed(pflag.NewFlagSet("", pflag.ContinueOnError), bind)...)
	}
	return names
}

// MeasuredSpec returns the replay of a measured run, and its trace. Flags and the files that they name have
// precedence over the settings of the run. filled lists the settings of the run that are used, as FLAG VALUE.
func (o *Options) MeasuredSpec(m *calibrate.Measured, p *measured.Prompts) (spec replay.Spec, trace *bytes.Buffer, filled []string, err error) {
	if name := o.FirstChanged(givenByRun()...); name != "" && (name != "max-in-flight" || m.InFlight == 0) {
		return spec, nil, nil, o.Only(name, "with replay trace: the run has what was served")
	}
	if err := o.Config.Apply(o); err != nil {
		return spec, nil, nil, err
	}
	settings := slices.DeleteFunc(o.Settings(), func(s plan.Setting) bool { return s.Name == "max-in-flight" }) // the run defines it
	settings, filled = takeReported(settings, m)
	own, _, _, err := OptionsOf(settings)
	if err != nil {
		return spec, nil, nil, err
	}
	own.measured = m
	if spec, err = own.Spec("-", loadgen.Trace); err != nil {
		return spec, nil, nil, err
	}
	if spec.Admission != nil && slices.ContainsFunc(spec.Admission.Rules, func(r policy.AdmissionRule) bool { return r.Decision == router.Shed }) {
		return spec, nil, nil, o.Only("admission", "with rules that hold or accept: the run has answers to all of its requests")
	}
	if !m.Client && spec.FrontEnd == nil {
		spec.FrontEnd = &silicon.FrontEnd{} // the run has the times of the engine
	}
	if times := spec.Entry().Engine.PassTimes; times.HoldsProfile() {
		p, err := times.Profile()
		if err != nil {
			return spec, nil, nil, err
		}
		m.AddWay(p.Way)
		m.Unheard = m.Unheard || p.Unheard
	}
	picker, picks := spec.Router.(*policy.Picker)
	if m.RouterListens = picks && picker.FollowsCaches() && spec.Signals.Index == nil && spec.Pools[0].Count > 1; m.RouterListens {
		HideEvents(&spec, m.Unheard)
		reader, err := endpointpicker.ReadEvents(own.Cluster.picker)
		if err != nil {
			return spec, nil, nil, err
		}
		m.CompareEvents(reader)
	}
	if m.InFlight > 0 {
		spec.Mode, spec.MaxInFlight = loadgen.Concurrency, m.InFlight
	}
	if last := len(spec.Pools) - 1; last == 0 && spec.WorkerSpeeds == nil {
		if speeds := m.SpeedsFor(spec.Pools[0].Count); speeds != nil {
			spec.WorkerSpeeds = [][]float64{speeds}
		}
	}
	if err := warmUp(&spec, m); err != nil {
		return spec, nil, nil, err
	}
	trace = &bytes.Buffer{}
	block, err := m.WriteTrace(trace, p)
	spec.Trace = &replay.Trace{Path: "-", Format: formats.Mooncake, BlockTokens: block}
	return spec, trace, filled, err
}

// takeReported adds the settings that a run reports to settings, unless they are set. filled lists the added settings
// as FLAG VALUE. takeReported notes settings that cannot be used.
func takeReported(settings []plan.Setting, m *calibrate.Measured) (all []plan.Setting, filled []string) {
	given := map[string]string{}
	for _, s := range settings {
		given[s.Name] = s.Value
	}
	var unapplied []string
	defer func() { m.NoteUnapplied(unapplied) }()
	if kind := cmp.Or(m.Settings.Kind, "vllm"); cmp.Or(given["engine"], kind) != kind {
		return settings, nil
	}
	for _, s := range m.Settings.Flags() {
		_, has := given[s.Name]
		ruled := (s.Name == "scheduler-profile" || s.Name == "extra-engine-args") && given["timing-profile"] != "" // the profile defines the rules with which it was fitted
		switch {
		case s.NeedsGPU() && given["gpu"] == "" && !has:
			if given["timing-profile"] == "" { // otherwise the profile defines it
				unapplied = append(unapplied, s.Name+" "+s.Value+" (requires --gpu)")
			}
		case given["router"]+given[policyFlag] != "" && s.Name == pickerFlag:
		case has, ruled, s.Name == "num-gpu-blocks" && given["gpu"] != "":
		default:
			settings = append(settings, plan.Setting{Name: s.Name, Value: s.Value})
			filled = append(filled, s.Name+" "+s.Value)
		}
	}
	return settings, filled
}

// HideEvents sets whether KV events are hidden from the router of a replay. If KV events are not hidden, the router
// receives KV events without delay.
func HideEvents(spec *replay.Spec, hidden bool) {
	spec.Signals.Index = nil
	if hidden {
		spec.Signals.Set(router.Caches, router.Age{Never: true})
	}
}

// warmUp sets the warm-up of workers according to their timing profile, if the servers of the measured run were
// freshly started.
func warmUp(spec *replay.Spec, m *calibrate.Measured) error {
	if !m.Fresh() {
		return nil
	}
	var err error
	spec.Topology = spec.WithEngines(func(a *engineargs.Args) {
		if err != nil || a.Warmup.Given() || a.NoWarmup() != "" || !a.PassTimes.HoldsProfile() {
			return
		}
		var p *timing.Profile
		if p, err = a.PassTimes.Profile(); err == nil && p.Warmup != nil {
			a.Warmup = m.WarmupOf(p.Warmup)
		}
	})
	return err
}

// FitCheck returns a function that checks a request against the deployment in a file. The function returns an error
// if the deployment can never serve the request. Without a file the function always returns nil.
func FitCheck(file string) (func(input, output int) error, error) {
	if file == "" {
		return func(int, int) error { return nil }, nil
	}
	o, _, _, err := OptionsOf([]plan.Setting{{Name: deploymentSetting, Value: file}})
	if err != nil {
		return nil, err
	}
	spec, err := o.Spec("-", loadgen.Trace)
	if err != nil {
		return nil, err
	}
	stages, err := engines.NewStages(&spec.Topology, engines.Use{})
	if err != nil {
		return nil, err
	}
	longest := math.MaxInt
	if h := HardwareOf(o.Engine.Flags); h.Given() {
		fit, err := h.Fit("")
		if err != nil {
			return nil, err
		}
		fit = engines.OnEngine(fit, &spec.Entry().Engine)
		longest = fit.LongestSequence()
	}
	return func(input, output int) error {
		if n := input + output; n > longest {
			return fmt.Errorf("input_length %d, output_length %d: %d tokens, must be at most %d, the longest sequence of the model", input, output, n, longest)
		}
		if err := engines.Fits(stages, input, output); err != nil {
			return err
		}
		return nil
	}, nil
}
