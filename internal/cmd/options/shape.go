package options

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/schema"
)

// DeploymentShape returns the JSON Schema of a deployment file.
func DeploymentShape() schema.Shape {
	names := deployment.Flags()
	return shapeOfLines(NewCellOptions().Set, func(name string) bool { return slices.Contains(names, name) })
}

// ConfigShape returns the JSON Schema of a config file for a command.
func ConfigShape(fs *pflag.FlagSet) schema.Shape {
	return shapeOfLines(fs, func(name string) bool {
		return name != "config" && name != deploymentSetting && !strings.HasPrefix(name, "help")
	})
}

// shapeOfLines returns the JSON Schema of a file of flags. keep selects the flags.
func shapeOfLines(fs *pflag.FlagSet, keep func(name string) bool) schema.Shape {
	properties := ListLines(fs, keep)
	s := schema.MappingOf(properties)
	engine, ok := properties["engine"].(schema.Shape)
	if !ok {
		return s
	}
	var conditions []schema.Shape
	for _, name := range engine["enum"].([]string) {
		others := schema.Shape{}
		fs.VisitAll(func(f *pflag.Flag) {
			if v, ok := f.Value.(*schema.Flag); ok && keep(f.Name) && v.Only != "" && v.Only != name {
				others[f.Name] = false
			}
		})
		conditions = append(conditions, schema.Shape{
			"if": schema.Shape{
				"properties": schema.Shape{"engine": schema.Shape{"const": name}}, "required": []string{"engine"},
				"not": schema.AnyOf(schema.Shape{"required": []string{"prefill-engine-args"}}, schema.Shape{"required": []string{"decode-engine-args"}}),
			},
			"then": schema.Shape{"properties": others},
		})
	}
	s["allOf"] = conditions
	return s
}

// ListLines returns the JSON Schemas of flags in a file, by name. keep selects the flags.
func ListLines(fs *pflag.FlagSet, keep func(name string) bool) schema.Shape {
	all := schema.Shape{}
	fs.VisitAll(func(f *pflag.Flag) {
		if keep(f.Name) {
			all[f.Name] = shapeOfFlag(f)
		}
	})
	return all
}

// shapeOfFlag returns the JSON Schema for the value of a flag in a file.
func shapeOfFlag(f *pflag.Flag) schema.Shape {
	var s schema.Shape
	switch v := f.Value.(type) {
	case *schema.Flag:
		return v.LineShape()
	case *cli.Choice:
		s = schema.OneOf(slices.DeleteFunc(slices.Concat(v.Names, v.Hidden), func(name string) bool { return name == "" }))
	default:
		switch f.Value.Type() {
		case "bool":
			s = schema.TypeOf("boolean")
		case "int", "uint64":
			s = schema.TypeOf("integer")
		case "float64":
			s = schema.TypeOf("number")
		default:
			s = schema.TypeOf("string", "number", "boolean", "object")
		}
	}
	s["description"] = strings.ReplaceAll(f.Usage, "`", "")
	return s
}
