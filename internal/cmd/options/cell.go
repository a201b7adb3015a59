package options

import (
	"encoding/csv"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/schema"
)

// TraceSetting names the file that a cell replays, which on a command line is an
// argument.
const TraceSetting = "trace"

// deploymentSetting names the file that a cell takes what is not set from.
const deploymentSetting = "deployment"

// notInCells are flags of a replay that make no sense in many at once.
func notInCells() []string {
	return append(liveFlags(), "config", "help", "planner-config", "benchmark-granularity", "mode", changeFlag)
}

// NewCellOptions are options with the flags that a cell may set, none of which
// writes anything.
func NewCellOptions() *Options { return (&CellReader{}).newOptions() }

// CellReader makes the options of many cells, for several goroutines. The zero value lists what engines have for each anew.
type CellReader struct {
	rows   []schema.Row
	others map[string]string
}

// NewCellReader returns a reader that lists what engines have once.
func NewCellReader() *CellReader { return &CellReader{schema.InHelp(EngineRows()), cli.OtherNames()} }

func (c *CellReader) newOptions() *Options {
	o := &Options{}
	o.Engine.rows = c.rows
	cmd := &cobra.Command{}
	o.Set = cmd.Flags()
	o.Spelled, o.others = map[string]string{}, c.others
	if o.others == nil {
		o.others = cli.OtherNames()
	}
	o.Set.SetNormalizeFunc(o.ourName)
	for _, g := range o.replayGroups() {
		g.Bind(o.Set)
	}
	o.Set.Var(&o.Outputs.Slo, "slo", "")
	o.Set.Float64Var(&o.Outputs.Attainment, "slo-attainment", 1, "")
	return o
}

// ListPlain returns the flags of a replay of a trace that name no file and no program, in the order of the help.
func ListPlain() []*pflag.Flag {
	kinds := []string{"int", "uint64", "float64", "bool", "duration", string(schema.Int), string(schema.Real), string(schema.Limit), string(schema.Factor), string(schema.Name), string(schema.Range)}
	texts := []string{"columns", "worker-speed", "prefill-worker-speed", "decode-worker-speed", "signal-delay", "signal-interval", "retry-backoff", "client-timeout", "front-end-ms", "assume-prefix", "priority-from", "servegen-span", "pd-when"}
	left := slices.Concat(notInCells(), syntheticFlags(), []string{"stream", "threads", "compat"})
	var all []*pflag.Flag
	NewCellOptions().Set.VisitAll(func(f *pflag.Flag) {
		plain := slices.Contains(kinds, f.Value.Type()) || slices.Contains(texts, f.Name)
		if plain && !f.Hidden && !slices.Contains(left, f.Name) && !strings.HasPrefix(f.Name, "generate-") {
			all = append(all, f)
		}
	})
	return all
}

// Settable is an error when no cell can set the named flag.
func Settable(fs *pflag.FlagSet, name string) error {
	if name == TraceSetting {
		return nil
	}
	if f := fs.Lookup(name); f == nil || slices.Contains(notInCells(), f.Name) {
		return cli.Usagef("%s: no such flag of a replay%s", name, nearest.Ask(name, cli.FlagNames(fs)))
	}
	return nil
}

// OwnName is our name for a flag.
func OwnName(fs *pflag.FlagSet, name string) string {
	if f := fs.Lookup(name); f != nil {
		return f.Name
	}
	return name
}

// Settings are the flags of a replay that are set, those of a deployment among them, or
// the deployments of a mix.
func (o *Options) Settings() []plan.Setting {
	known := NewCellOptions().Set
	var all []plan.Setting
	o.Set.Visit(func(f *pflag.Flag) {
		if (f.Name != deploymentSetting || o.keepsDeployments()) && known.Lookup(f.Name) != nil && Settable(known, f.Name) == nil {
			all = append(all, plan.Setting{Name: f.Name, Value: f.Value.String()})
		}
	})
	return all
}

// ExpandDeployment returns settings with those of the deployment that they name in its place,
// so that all files and values of a cell are seen. Those of the deployments of a mix have
// their names in front, as h100.model.
func ExpandDeployment(settings []plan.Setting) ([]plan.Setting, error) {
	if !slices.ContainsFunc(settings, func(s plan.Setting) bool { return s.Name == deploymentSetting }) {
		return settings, nil
	}
	o, _, _, err := OptionsOf(settings)
	if err != nil {
		return nil, err
	}
	given := map[string]bool{}
	o.Set.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := o.Config.Apply(o); err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(slices.Clone(settings), func(s plan.Setting) bool { return s.Name == deploymentSetting })
	if o.keepsDeployments() {
		own, err := o.kindSettings()
		return append(all, own...), err
	}
	o.Set.Visit(func(f *pflag.Flag) {
		if !given[f.Name] {
			all = append(all, plan.Setting{Name: f.Name, Value: f.Value.String()})
		}
	})
	return all, nil
}

// OptionsOf are the options of a command line with these settings, the trace it
// names, and whether it would be replay trace or replay concurrency.
func OptionsOf(settings []plan.Setting) (o *Options, file string, mode loadgen.Mode, err error) {
	return (&CellReader{}).OptionsOf(settings)
}

// OptionsOf is the function of that name.
func (c *CellReader) OptionsOf(settings []plan.Setting) (o *Options, file string, mode loadgen.Mode, err error) {
	o = c.newOptions()
	for _, s := range settings {
		if s.Name == TraceSetting {
			file = s.Value
			continue
		}
		if err := Settable(o.Set, s.Name); err != nil {
			return nil, "", 0, err
		}
		if err := o.Set.Set(s.Name, s.Value); err != nil {
			var invalid *pflag.InvalidValueError
			if errors.As(err, &invalid) {
				err = invalid.Unwrap()
			}
			return nil, "", 0, cli.Usagef("%s=%s: must be %s", s.Name, s.Value, cli.WantedKind(o.Set.Lookup(s.Name).Value.Type(), err))
		}
	}
	if o.Changed("max-in-flight") {
		mode = loadgen.Concurrency
	}
	return o, file, mode, nil
}

// WholeValue returns the value in NAME=VALUE unchanged, with commas, if the flag takes it; nil if it does not.
func WholeValue(name, text string) []string {
	_, value, _ := strings.Cut(text, "=")
	if NewCellOptions().Set.Set(name, value) != nil {
		return nil
	}
	return []string{value}
}

// ParseAxis reads NAME=VALUE,VALUE; a value that holds a comma is quoted as in
// CSV.
func ParseAxis(flag, text string) (plan.Axis, error) {
	name, values, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return plan.Axis{}, cli.Usagef("--%s=%s: must be NAME=VALUE,VALUE with the name of a flag", flag, text)
	}
	known := NewCellOptions().Set
	if err := Settable(known, name); err != nil {
		return plan.Axis{}, cli.Usagef("--%s=%s: %v", flag, text, err)
	}
	r := csv.NewReader(strings.NewReader(values))
	r.LazyQuotes = true
	all, err := r.Read()
	if err != nil {
		return plan.Axis{}, cli.Usagef("--%s=%s: must be at least one value after %s=", flag, text, name)
	}
	return plan.Axis{Name: OwnName(known, name), Values: all}, nil
}
