package yamlfile

import (
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/replay-llm/replay/schema"
	"github.com/replay-llm/replay/sim"
)

// Patterns for times of cli.ParseInstant and of time.ParseDuration.
const (
	instantPattern  = `^[0-9.]+([eE][-+]?[0-9]+)?$|^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^[0-9]+(:[0-9]{2}){1,2}$`
	durationPattern = `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`
)

// InstantShape returns the JSON Schema of a time.
func InstantShape() schema.Shape {
	return schema.AnyOf(schema.Shape{"type": "number", "minimum": 0}, schema.Shape{"type": "string", "pattern": instantPattern})
}

// Shape returns the JSON Schema of a value with the type of of. The schema rejects keys that do not apply to the kind
// in the key with the name kind.
func (f *File) Shape(of any, kind string) schema.Shape {
	return f.shapeOf(reflect.TypeOf(of), "", kind)
}

// shapeOfRule returns the schema of a value that a rule reads into a type.
func (f *File) shapeOfRule(r Rule, into reflect.Type) schema.Shape {
	switch shape := r.Shape.(type) {
	case nil:
		return f.shapeOf(into, "", "")
	case schema.Shape:
		return shape
	default:
		return f.shapeOf(reflect.TypeOf(shape), "", "")
	}
}

// shapeOf returns the schema of a type with the given field tag.
func (f *File) shapeOf(t reflect.Type, tag reflect.StructTag, kind string) schema.Shape {
	if rule := f.Rules[tag.Get("is")]; rule.Read != nil {
		return f.shapeOfRule(rule, t)
	}
	switch t {
	case reflect.TypeFor[sim.Time]():
		return InstantShape()
	case reflect.TypeFor[time.Duration]():
		return schema.Shape{"type": "string", "pattern": durationPattern}
	}
	low, high, _ := strings.Cut(tag.Get("is"), "..")
	switch t.Kind() {
	case reflect.String: // names and expressions, which may be numbers
		return schema.TypeOf("string", "number", "boolean")
	case reflect.Bool:
		return schema.TypeOf("boolean")
	case reflect.Float64:
		return schema.Shape{"type": "number", "minimum": parseBound(low, 0), "maximum": parseBound(high, 1e12)}
	case reflect.Int, reflect.Int32:
		return schema.Shape{"type": "integer", "minimum": parseBound(low, 0), "maximum": parseBound(high, math.MaxInt32)}
	case reflect.Slice:
		if rule := f.Rules[tag.Get("each")]; rule.Read != nil {
			return schema.ListOf(f.shapeOfRule(rule, t.Elem()))
		}
		return schema.ListOf(f.shapeOf(t.Elem(), tag, ""))
	case reflect.Map:
		return schema.Shape{"type": "object", "additionalProperties": f.shapeOf(t.Elem(), tag, "")}
	case reflect.Pointer:
		return f.shapeOf(t.Elem(), tag, kind)
	case reflect.Struct:
		return f.shapeOfKeys(listFields(reflect.New(t).Elem()), kind)
	}
	return schema.Shape{}
}

// shapeOfKeys returns the schema of a mapping. kind is the key for the kind of the mapping, or "".
func (f *File) shapeOfKeys(fields []field, kind string) schema.Shape {
	properties := schema.Shape{}
	for i := range fields {
		x := &fields[i]
		if x.group != nil {
			properties[x.name] = f.shapeOfKeys(x.group, "")
			continue
		}
		properties[x.name] = f.shapeOf(x.to.Type(), x.tag, "")
	}
	s := schema.MappingOf(properties)
	if kinds, ok := properties[kind].(schema.Shape); ok {
		s["allOf"] = listOfKinds(fields, kind, kinds["enum"].([]string))
	}
	return s
}

// listOfKinds returns a condition for each kind that rejects the keys of other kinds.
func listOfKinds(fields []field, key string, kinds []string) (all []schema.Shape) {
	for _, name := range kinds {
		own := (&File{Kind: name}).listOwn(fields)
		all = append(all, schema.Shape{
			"if":   schema.Shape{"properties": schema.Shape{key: schema.Shape{"const": name}}, "required": []string{key}},
			"then": schema.Shape{"propertyNames": schema.OneOf(own)},
		})
	}
	return all
}
