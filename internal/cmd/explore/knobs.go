package explore

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/optables"
	"github.com/replay-llm/replay/schema"
)

// Knob is a flag that a page may change. No knob starts a program. Knobs for files accept only files that were
// offered.
type Knob struct {
	Flag    string   `json:"flag"`
	Group   string   `json:"group"`
	Label   string   `json:"label"`
	Choices []string `json:"choices,omitempty"` // valid values; nil: any value
	// Steps are the values of a slider. A knob without steps is a text field.
	Steps  []string `json:"steps,omitempty"`
	Preset string   `json:"preset"` // description of the default
	// File reports that the values are offered files (Session.Offer). The knobs faults and autoscale also accept
	// text.
	File bool `json:"file,omitempty"`
	More bool `json:"more,omitempty"` // the knob is hidden until the search finds it or it is set
}

// hasText reports whether a knob for files also accepts the contents of a file as text.
func (k *Knob) hasText() bool { return k.Flag == "faults" || k.Flag == "autoscale" }

// acceptsText reports whether value is valid text for a knob for files. Text of an autoscaler must not name files or
// programs.
func (k *Knob) acceptsText(value string) bool {
	switch k.Flag {
	case "faults":
		return options.IsFaultList(value)
	case "autoscale":
		return regexp.MustCompile(`^\{scaler: hpa, [a-z0-9_.,:{}\[\] ]*\}$`).MatchString(value)
	}
	return false
}

// Knobs returns all knobs.
func Knobs() []Knob {
	var routers []string
	for _, p := range policy.All() {
		routers = append(routers, string(p.Name))
	}
	few := splitWords("1 2 3 4 5 6 7 8 9 10 11 12 14 16 18 20 24 28 32 40 48 56 64")
	all := []Knob{
		{Flag: "speedup", Group: "Load", Label: "Load factor (× the arrival rate)", Steps: splitWords("0.25 0.5 0.75 1 1.25 1.5 2 2.5 3 4 5 6 8 10 12 16 20 24 32 48 64"), Preset: "1"},
		{Flag: "max-in-flight", Group: "Load", Label: "Concurrency (closed loop)", Preset: "requests arrive at their times"},
		{Flag: "trace-block-size", Group: "Load", Label: "Trace block size (tokens)", Preset: "512, or from the trace"},
		{Flag: "until", Group: "Load", Label: "Stop at (trace time, as 30m)", Preset: "the end of the trace"},
		{Flag: "columns", Group: "Load", Label: "Columns of a CSV or JSONL trace", Preset: "those of its format"},
		{Flag: "classes", Group: "Load", Label: "Request classes (file)", File: true, Preset: "those of the trace"},
		{Flag: "workers", Group: "Cluster", Label: "Workers", Steps: few, Preset: "1"},
		{Flag: "prefill-workers", Group: "Cluster", Label: "Prefill workers", Steps: few, Preset: "no pool"},
		{Flag: "decode-workers", Group: "Cluster", Label: "Decode workers", Steps: few, Preset: "no pool"},
		{Flag: "prefill-tp", Group: "Cluster", Label: "Prefill tensor parallelism", Choices: splitWords("1 2 4 8 16"), Preset: "as --tp"},
		{Flag: "decode-tp", Group: "Cluster", Label: "Decode tensor parallelism", Choices: splitWords("1 2 4 8 16"), Preset: "as --tp"},
		{Flag: "pd-threshold", Group: "Cluster", Label: "P/D threshold (prompt tokens)", Preset: "none"},
		{Flag: "router", Group: "Cluster", Label: "Router", Choices: routers, Preset: "round_robin"},
		{Flag: "router-policy", Group: "Cluster", Label: "Router policy (file)", File: true, Preset: "none"},
		{Flag: "autoscale", Group: "Cluster", Label: "Autoscaler", File: true, Preset: "none"},
		{Flag: "faults", Group: "Faults", Label: "Faults", File: true, Preset: "nothing"},
	}
	all = append(all, engineKnobs()...)
	for _, r := range options.RouterRows() {
		if r.Knob.Label != "" {
			all = append(all, Knob{Flag: r.Flag, Group: "Cluster", Label: r.Knob.Label, Preset: r.Knob.Preset, Steps: splitWords(r.Knob.Steps)})
		}
	}
	all = append(all,
		Knob{Flag: "seed", Group: "Engine", Label: "Random seed", Preset: "42"},
		Knob{Flag: "slo", Group: "Objectives", Label: "Objectives, as p99:ttft=2s,itl=50ms", Preset: "none"},
		Knob{Flag: "slo-attainment", Group: "Objectives", Label: "Attainment (share of requests)", Preset: "1"},
	)
	return append(all, moreKnobs(all)...)
}

// moreKnobs returns knobs for the other flags that do not name files or programs.
func moreKnobs(shown []Knob) (all []Knob) {
	for _, f := range options.ListPlain() {
		if slices.ContainsFunc(shown, func(k Knob) bool { return k.Flag == f.Name }) {
			continue
		}
		_, usage := pflag.UnquoteUsage(f)
		k := Knob{Flag: f.Name, Group: "More settings", Label: strings.Join(strings.Fields(usage), " "), Preset: cmp.Or(f.DefValue, "not set"), More: true}
		if v, ok := f.Value.(interface{ Choices() []string }); ok {
			k.Choices = v.Choices()
		}
		if f.Value.Type() == string(schema.Bool) {
			k.Choices = splitWords("true false")
		}
		all = append(all, k)
	}
	return all
}

// engineKnobs returns the knobs of engines and hardware.
func engineKnobs() (all []Knob) {
	for _, r := range schema.Placed(options.EngineRows()) {
		if r.Knob.Label == "" {
			continue
		}
		k := Knob{Flag: r.Flag, Group: "Engine", Label: r.Knob.Label, Preset: r.Knob.Preset, Choices: r.Names, Steps: splitWords(r.Knob.Steps)}
		switch {
		case r.Knob.Choices != "":
			k.Choices = splitWords(r.Knob.Choices)
		case r.Kind == schema.Bool:
			k.Choices = splitWords("true false")
		case r.Offered != nil:
			k.Choices = slices.DeleteFunc(slices.Clone(r.Offered), optables.Missing)
		}
		if options.IsHardware(&r) {
			k.Group = "Hardware"
		}
		all = append(all, k)
	}
	return all
}

func splitWords(text string) []string { return strings.Fields(text) }

func isKnob(name string) bool {
	return slices.ContainsFunc(Knobs(), func(k Knob) bool { return k.Flag == name })
}

// longest is the maximum length of a value, in bytes.
const longest = 1000

// checkKnob returns an error for a setting that is not a knob, and for an invalid value of a knob.
func checkKnob(all []Knob, name, value string) error {
	if name == options.TraceSetting {
		return nil
	}
	i := slices.IndexFunc(all, func(k Knob) bool { return k.Flag == name })
	if i < 0 {
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Flag
		}
		return cli.Usagef("%s: nothing that can be turned here%s", name, nearest.Ask(name, names))
	}
	if len(value) > longest {
		return cli.Usagef("%s: %d bytes, must be at most %d", name, len(value), longest)
	}
	k := &all[i]
	switch {
	case k.acceptsText(value), k.Choices == nil && !k.File, slices.Contains(k.Choices, value):
		return nil
	case k.Flag == "autoscale":
		return cli.Usagef("autoscale=%s: must be {scaler: hpa, min: 1, max: 8, metrics: [{metric: in_flight, target: 8}]} with other numbers, or a file that replay ui was given%s", value, nearest.Ask(value, k.Choices))
	case k.Flag == "faults":
		return cli.Usagef("faults=%s: must be a list, as [{at: 60s, worker: 0, what: dies}], or a file that replay ui was given%s", value, nearest.Ask(value, k.Choices))
	}
	return cli.Usagef("%s=%s: must be one of %s%s", name, value, strings.Join(k.Choices, ", "), nearest.Ask(value, k.Choices))
}
