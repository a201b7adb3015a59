// Package choices lists the settings that replay plan varies by default. replay plan varies these settings if the
// command line names a GPU and a model.
//
// Read choices.go (which settings vary), values.go (their values), then combine.go (their combinations).
package choices

import (
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/plan"
)

// Space describes which settings vary. The fields of a Space are the values of the flags with the same names.
type Space struct {
	Vary, Fix, Allow []string
	Topology         string // value of --topology: aggregated, disaggregated or both
	axes             []plan.Axis
	names            []string // all names in Vary, with or without values
}

// Names of settings that vary by default. The name tp includes pp, dp and ep, which also divide a model among GPUs.
const (
	TP       = "tp"
	Budget   = "max-num-batched-tokens"
	Router   = "router"
	Topology = "topology"
)

const none = "none"

// Flags for the tensor parallelism of prefill workers and of decode workers.
const (
	prefillTP = "prefill-tp"
	decodeTP  = "decode-tp"
)

// Names returns the names of all settings that vary by default.
func Names() []string { return []string{TP, Budget, Router, Topology} }

// FlagsOf returns the flags that fix a setting that varies by default.
func FlagsOf(name string) []string {
	switch name {
	case TP:
		return []string{"tp", "pp", "dp", "ep", prefillTP, decodeTP}
	case Budget:
		return []string{"max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens", "enable-chunked-context"}
	case Router:
		return []string{"router", "router-policy", "policy-process", "endpoint-picker"}
	}
	return []string{name}
}

// Check parses --vary. Check rejects unknown names, and settings that the command line both sets and varies.
func (s *Space) Check(o *options.Options) error {
	s.axes, s.names = nil, nil
	for _, text := range s.Vary {
		if !strings.Contains(text, "=") {
			s.names = append(s.names, strings.Split(text, ",")...)
			continue
		}
		axis, err := parseAxis(text)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains([]string{"workers", "prefill-workers", "decode-workers", "worker-speed", "gpu", "model", "speedup", "max-in-flight"}, axis.Name):
			return cli.Usagef("--vary=%s: %s has no values here: the plan finds the number of workers, --gpu takes several, and the workload and the model are given", text, axis.Name)
		case slices.ContainsFunc(s.axes, func(a plan.Axis) bool { return a.Name == axis.Name }):
			return cli.Usagef("--vary=%s: %s has values already", text, axis.Name)
		}
		s.axes, s.names = append(s.axes, axis), append(s.names, axis.Name)
	}
	for _, name := range s.names {
		if given := o.FirstChanged(FlagsOf(name)...); given != "" && name != none {
			return cli.Usagef("--vary=%s: --%s gives it: remove one of them", name, given)
		}
		if !slices.Contains(Names(), name) && !s.hasAxis(name) && !(name == none && len(s.names) == 1) {
			return cli.Usagef("--vary=%s: must be some of %s, or NAME=VALUE,VALUE with the name of a flag%s", name, strings.Join(Names(), ", "), nearest.Ask(name, Names()))
		}
	}
	for _, name := range s.Fix {
		if !slices.Contains(Names(), name) {
			return cli.Usagef("--fix=%s: must be some of %s%s", name, strings.Join(Names(), ", "), nearest.Ask(name, Names()))
		}
	}
	if len(s.Allow) > 0 && s.IsNone() {
		return cli.Usagef("--allow is not supported with --vary none")
	}
	return nil
}

// parseAxis parses NAME=VALUE,VALUE. The name is a flag of a replay or topology.
func parseAxis(text string) (plan.Axis, error) {
	values, ok := strings.CutPrefix(text, Topology+"=")
	if !ok {
		return options.ParseAxis("vary", text)
	}
	axis := plan.Axis{Name: Topology, Values: strings.Split(values, ",")}
	for _, value := range axis.Values {
		if value != "aggregated" && value != "disaggregated" {
			return axis, cli.Usagef("--vary=%s: %s must be aggregated or disaggregated", text, value)
		}
	}
	return axis, nil
}

func (s *Space) hasAxis(name string) bool {
	return slices.ContainsFunc(s.axes, func(a plan.Axis) bool { return a.Name == name })
}

// Axes returns the settings that vary with values from the command line.
func (s *Space) Axes() []plan.Axis { return s.axes }

// IsNone reports whether --vary is none, so that no setting varies.
func (s *Space) IsNone() bool { return slices.Contains(s.Vary, none) }

// varies reports whether a setting varies with its default values.
func (s *Space) varies(o *options.Options, name string) bool {
	if s.Vary != nil && !slices.Contains(s.names, name) || slices.Contains(s.Fix, name) || s.hasAxis(name) {
		return false
	}
	if name == TP && (s.hasAxis(prefillTP) || s.hasAxis(decodeTP)) {
		return false
	}
	return o.FirstChanged(FlagsOf(name)...) == ""
}
