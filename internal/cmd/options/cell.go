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

// TraceSetting is the name of the setting for the trace of a cell. On a command line the trace is an argument.
const TraceSetting = "trace"

// deploymentSetting is the name of the setting for a deployment file with default settings.
const deploymentSetting = "deployment"

// notInCells returns the flags of a replay that are not supported in cells.
func notInCells() []string {
	return append(liveFlags(), "config", "help", "planner-config", "benchmark-granularity", "mode", changeFlag)
}

// NewCellOptions returns options with the flags that a cell may set. None of these flags sets an output.
func NewCellOptions() *Options { return (&CellReader{}).newOptions() }

// CellReader creates the options of cells. CellReader is safe for concurrent use. The zero value lists the settings
// of engines again for each cell.
type CellReader struct {
	rows   []schema.Row
	others map[string]string
}

// NewCellReader returns a CellReader that lists the settings of engines once.
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

// ListPlain returns the flags of a trace replay that do not name a file or a program, in the order of the help.
func ListPlain() []*pflag.Flag {
	kinds := []string{"int", "uint64", "float64", "bool", "duration", string(schema.Int), string(schema.Real), string(schema.Limit), string(schema.Factor), string(schema.Name), string(schema.Range)}
	texts := []string{"columns", "arrival-format", "worker-speed", "prefill-worker-speed", "decode-worker-speed", "signal-delay", "signal-interval", "retry-backoff", "client-timeout", "front-end-ms", "assume-prefix", "priority-from", "servegen-span", "pd-when"}
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

// Settable returns an error if a cell cannot set the flag with the given name.
func Settable(fs *pflag.FlagSet, name string) error {
	if name == TraceSetting {
		return nil
	}
	if f := fs.Lookup(name); f == nil || slices.Contains(notInCells(), f.Name) {
		return cli.Usagef("%s: no such flag of a replay%s", name, nearest.Ask(name, cli.FlagNames(fs)))
	}
	return nil
}

// OwnName returns the name of a flag in replay, for its name in another tool.
func OwnName(fs *pflag.FlagSet, name string) string {
	if f := fs.Lookup(name); f != nil {
		return f.Name
	}
	return name
}

// Settings returns the flags that are set, including settings of a deployment. For a mix it returns the deployments
// instead of their settings.
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

// ExpandDeployment replaces a deployment in settings with its settings, so that all files and values of a cell are
// listed. The settings of the deployments of a mix have the name of the deployment as a prefix, such as h100.model.
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

// OptionsOf returns the options for settings, the path of the trace, and the mode of the replay command.
func OptionsOf(settings []plan.Setting) (o *Options, file string, mode loadgen.Mode, err error) {
	return (&CellReader{}).OptionsOf(settings)
}

// OptionsOf is the function OptionsOf with the engine settings of c.
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

// WholeValue returns the complete value in NAME=VALUE, including commas. WholeValue returns nil if the value is
// invalid for the flag.
func WholeValue(name, text string) []string {
	_, value, _ := strings.Cut(text, "=")
	if NewCellOptions().Set.Set(name, value) != nil {
		return nil
	}
	return []string{value}
}

// ParseAxis parses NAME=VALUE,VALUE. Values with commas are quoted as in CSV.
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
