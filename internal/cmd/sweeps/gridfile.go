package sweeps

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/schema"
)

// GridFlags are the flags that define the cells of a sweep.
type GridFlags struct {
	axes, common, traces []string
	columns              string
	deployments          []string
	repeat               int
}

func (f *GridFlags) Bind(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.traces, "trace", nil, "trace `file` of all cells; repeatable: several files are an axis of the grid")
	fs.StringVar(&f.columns, "columns", "", "`columns` of any CSV or JSONL file: arrival=time,input=prompt,output=answer")
	fs.StringArrayVar(&f.deployments, "deployment", nil, "YAML `file` of replay init for all cells; repeatable for a mix of workers")
	fs.StringArrayVar(&f.axes, "grid", nil, "axis of the grid: a flag and its values, as `workers=1,2,4`; repeatable")
	fs.StringArrayVar(&f.common, "set", nil, "flag of all cells, as `block-size=512`; repeatable")
	fs.IntVar(&f.repeat, "repeat", 0, "`number` of workload resamples per cell, for confidence intervals")
}

// readGrid returns the grid of a file and of the flags. Flags have precedence over the file. file may be "".
func (f *GridFlags) readGrid(file string) (*plan.Grid, error) {
	g := &gridReader{known: options.NewCellOptions().Set, file: yamlfile.File{Path: file}}
	if file != "" {
		if err := g.readFile(); err != nil {
			return nil, err
		}
	}
	if len(f.traces) > 0 {
		g.putAxis(plan.Axis{Name: options.TraceSetting, Values: f.traces}, len(f.traces) > 1)
	}
	for _, c := range []struct{ name, value string }{{"columns", f.columns}, {"deployment", strings.Join(f.deployments, ",")}} {
		if c.value != "" {
			g.putAxis(plan.Axis{Name: c.name, Values: []string{c.value}}, false)
		}
	}
	for _, list := range []struct {
		flag   string
		texts  []string
		isAxis bool
	}{{"set", f.common, false}, {"grid", f.axes, true}} {
		for _, text := range list.texts {
			axis, err := options.ParseAxis(list.flag, text)
			if err != nil {
				return nil, err
			}
			if !list.isAxis && len(axis.Values) > 1 {
				if axis.Values = options.WholeValue(axis.Name, text); axis.Values == nil {
					return nil, cli.Usagef("--set=%s: must be one value, or --grid", text)
				}
			}
			g.putAxis(axis, list.isAxis)
		}
	}
	if len(g.grid.Axes) == 0 && len(g.grid.Common) == 0 {
		return nil, cli.Usagef("no grid: must be a file with a grid, or --grid")
	}
	if err := g.grid.Check(); err != nil {
		return nil, cli.Usagef("grid: %v", err)
	}
	return &g.grid, nil
}

// gridReader reads a grid. A file of a grid has traces, flags for all cells, and axes. The last axis changes fastest.
type gridReader struct {
	known *pflag.FlagSet
	file  yamlfile.File
	grid  plan.Grid
}

// putAxis adds an axis or a setting for all cells. putAxis replaces an axis or a setting with the same name.
func (g *gridReader) putAxis(a plan.Axis, isAxis bool) {
	axes, common := &g.grid.Axes, &g.grid.Common
	*common = slices.DeleteFunc(*common, func(s plan.Setting) bool { return s.Name == a.Name })
	i := slices.IndexFunc(*axes, func(b plan.Axis) bool { return b.Name == a.Name })
	switch {
	case isAxis && i >= 0:
		(*axes)[i] = a
	case isAxis:
		*axes = append(*axes, a)
	default:
		*axes = slices.DeleteFunc(*axes, func(b plan.Axis) bool { return b.Name == a.Name })
		*common = append(*common, plan.Setting{Name: a.Name, Value: a.Values[0]})
	}
}

// gridKeys are the keys of a grid file. The rules of the keys add settings to the grid in the order of the file.
type gridKeys struct {
	Trace any `yaml:"trace" is:"trace"`
	Set   any `yaml:"set" is:"set"`
	Grid  any `yaml:"grid" is:"grid"`
}

func (g *gridReader) readFile() error {
	text, err := os.ReadFile(g.file.Path)
	if err != nil {
		return err
	}
	section := func(axes bool) yamlfile.Rule {
		return yamlfile.Rule{Read: func(node ast.Node, _ any) error {
			return g.file.ReadPairs(node, "flags by name", func(key, value ast.Node) error {
				name := key.GetToken().Value
				if err := options.Settable(g.known, name); err != nil {
					return g.file.ErrorAt(key, "%v", err)
				}
				return g.readFlag(options.OwnName(g.known, name), value, axes)
			})
		}}
	}
	g.file.Rules = map[string]yamlfile.Rule{
		"trace": {Read: func(node ast.Node, _ any) error { return g.readFlag(options.TraceSetting, node, false) }}, "set": section(false), "grid": section(true),
	}
	bodies, err := yamlfile.ListBodies(g.file.Path, text)
	for _, body := range bodies {
		if err == nil {
			_, err = g.file.Read(body, "a grid", &gridKeys{})
		}
	}
	if err != nil {
		return cli.WrongUsage(err)
	}
	return nil
}

// readFlag reads one or more values of a flag. A list of values is an axis.
func (g *gridReader) readFlag(name string, node ast.Node, axis bool) error {
	a := plan.Axis{Name: name}
	nodes := []ast.Node{node}
	if list, ok := node.(*ast.SequenceNode); ok {
		if !axis && name != options.TraceSetting {
			return errors.New("a list, must be one value, or the list under grid")
		}
		nodes, axis = list.Values, true
	}
	for _, node := range nodes {
		text, err := yamlfile.TextOf(node)
		if err != nil {
			return err
		}
		a.Values = append(a.Values, text)
	}
	if len(a.Values) == 0 {
		return errors.New("no values, must have at least 1")
	}
	g.putAxis(a, axis)
	return nil
}

// GridShape returns the JSON Schema of a grid file.
func GridShape() schema.Shape {
	known := options.NewCellOptions().Set
	lines := options.ListLines(known, func(name string) bool { return options.Settable(known, name) == nil })
	axes, text := slices.Sorted(maps.Keys(lines)), schema.TypeOf("string")
	value := schema.TypeOf("string", "number", "boolean", "object")
	return schema.MappingOf(schema.Shape{
		"trace": schema.AnyOf(text, schema.ListOf(text)),
		"set":   schema.MappingOf(lines),
		"grid": schema.Shape{
			"type": "object", "propertyNames": schema.OneOf(append(axes, options.TraceSetting)),
			"additionalProperties": schema.AnyOf(value, schema.ListOf(value)),
		},
	})
}
