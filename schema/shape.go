package schema

import "strings"

// Shape is the JSON Schema of a value, by keyword.
type Shape map[string]any

// Document returns the JSON Schema of a file as a document.
func Document(title string, of Shape) Shape {
	of["$schema"], of["title"] = "https://json-schema.org/draft/2020-12/schema", title
	return of
}

// OneOf returns the shape of a value from a list of names.
func OneOf(names []string) Shape { return Shape{"enum": names} }

// AnyOf returns the shape of a value that matches any of the given shapes.
func AnyOf(all ...Shape) Shape { return Shape{"anyOf": all} }

// TypeOf returns the shape of a value of any of the given JSON types.
func TypeOf(names ...string) Shape {
	if len(names) == 1 {
		return Shape{"type": names[0]}
	}
	return Shape{"type": names}
}

// ListOf returns the shape of a list.
func ListOf(item Shape) Shape { return Shape{"type": "array", "items": item} }

// MappingOf returns the shape of an object that allows only the keys of properties.
func MappingOf(properties Shape) Shape {
	return Shape{"type": "object", "properties": properties, "additionalProperties": false}
}

// LineShape returns the shape of the value of the row's flag in a file of flags.
func (r *Row) LineShape() Shape {
	var s Shape
	switch r.Kind {
	case Int:
		s = TypeOf("integer")
	case Real:
		s = TypeOf("number")
	case Limit:
		s = AnyOf(TypeOf("integer"), OneOf([]string{"unlimited"}))
	case Factor:
		s = AnyOf(TypeOf("number"), OneOf([]string{"unlimited"}))
	case Bool:
		s = TypeOf("boolean")
	case Name:
		s = OneOf(r.Names)
	case Range:
		s = AnyOf(TypeOf("number"), Shape{"type": "string", "pattern": `^[-+.eE0-9]+(\.\.[-+.eE0-9]+)?$`})
	case Object:
		s = TypeOf("object", "string")
	default:
		s = TypeOf("string")
	}
	return r.explain(s)
}

// explain adds the help, the default and example values of the row to s.
func (r *Row) explain(s Shape) Shape {
	help := strings.ReplaceAll(r.Help, "`", "")
	if preset := r.Preset(); help != "" && preset != "" {
		help += " (default " + preset + ")"
	}
	if help != "" {
		s["description"] = help
	}
	if len(r.Offered) > 0 {
		s["examples"] = r.Offered
	}
	return s
}

// memberShape returns the shape of the row's value in a JSON object.
func (r *Row) memberShape() Shape {
	var s Shape
	switch r.Kind {
	case Limit:
		s = TypeOf("integer", "null")
	case Factor:
		s = TypeOf("number", "null")
	case Range:
		s = AnyOf(TypeOf("number"), ListOf(TypeOf("number")))
	case Object:
		s = Shape{}
	default:
		return r.LineShape()
	}
	return r.explain(s)
}

// ObjectShape returns the shape of a JSON object with the keys of rows.
func ObjectShape(rows []Row) Shape {
	top := Shape{}
	for i := range rows {
		r, at := &rows[i], top
		key := r.Key
		for {
			outer, inner, nested := strings.Cut(key, ".")
			if !nested {
				break
			}
			object, _ := at[outer].(Shape)
			if object["properties"] == nil {
				object["type"], object["properties"], object["additionalProperties"] = []string{"object", "null"}, Shape{}, false
			}
			at, key = object["properties"].(Shape), inner
		}
		if key != "" {
			at[key] = r.memberShape()
		}
	}
	return MappingOf(top)
}
