// Package yamlfile reads YAML files into structs. The package rejects unknown keys. Each error has the file, the
// line, the key, the value and the rule. Tags of the struct fields are:
//
// yaml:"key" is the key of a field. "a,b" are two keys of one field, "a.b" is key b of the mapping a, and ",inline"
// adds the keys of a struct.
//
// is:"1..8" has the bounds of a number, or the name of a rule in File.Rules.
//
// of:"x y" lists the kinds of files that have the key. "x,y" lists the kinds for each of two keys.
//
// what:"a filter" is the name of the mapping, or of an entry of the list, in errors.
//
// list:"filters" is the name of the entries of the list in errors, with an example.
//
// each:"filter" is the name of a rule in File.Rules for each entry of a list.
package yamlfile

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
)

// File describes a YAML file to read.
type File struct {
	Path  string
	Kind  string                     // kind of the resource in the file, for the tag of
	Only  func(kinds []string) error // returns the error for a key that only files of these kinds have
	Rules map[string]Rule
}

// Rule is a custom function that reads a node into a field.
type Rule struct {
	Read  func(node ast.Node, to any) error // to is a pointer to the field
	Shape any                               // a schema.Shape, or a value of a type with the same keys; nil: the type of the field
}

// To returns a rule for fields of type T.
func To[T any](read func(ast.Node, *T) error) Rule {
	return Rule{Read: func(node ast.Node, to any) error { return read(node, to.(*T)) }}
}

// As returns the rule with another Shape.
func (r Rule) As(shape any) Rule { return Rule{r.Read, shape} }

// Seen are the keys of a mapping in the order of the file.
type Seen []string

// Has reports whether the mapping has a key.
func (s Seen) Has(key string) bool { return slices.Contains(s, key) }

// placedError is an error that includes the file and the line.
type placedError struct{ error }

// ErrorAt returns an error with the file and the line of a node.
func (f *File) ErrorAt(at ast.Node, format string, args ...any) error {
	return placedError{fmt.Errorf("%s: %s", PlaceOf(f.Path, at), excerpt.Sprintf(format, args...))}
}

// PlaceError adds the file and the line of a node to an error, unless the error already contains them.
func (f *File) PlaceError(at ast.Node, err error) error {
	var placed placedError
	if err == nil {
		return nil
	}
	if errors.As(err, &placed) {
		return placed
	}
	return f.ErrorAt(at, "%v", err)
}

// ReadBody returns the body of a file with a single document.
func (f *File) ReadBody(text []byte, what string) (ast.Node, error) {
	bodies, err := ListBodies(f.Path, text)
	switch {
	case err != nil && strings.Contains(err.Error(), "mapping value"):
		return nil, fmt.Errorf(`%w; an expression with ": " in it requires quotes, or | in front and a line by itself`, err)
	case err != nil:
		return nil, err
	case len(bodies) != 1:
		return nil, fmt.Errorf("%s: %d documents, expected one %s", f.Path, len(bodies), what)
	}
	return bodies[0], nil
}

// Read reads a mapping into the struct that into points to, and returns the keys. what is the name of the mapping in
// errors.
func (f *File) Read(node ast.Node, what string, into any) (Seen, error) {
	return f.readMapping(node, what, listFields(reflect.ValueOf(into).Elem()))
}

func (f *File) readMapping(node ast.Node, what string, fields []field) (seen Seen, err error) {
	err = f.ReadPairs(node, what+", with "+cli.Either(f.listOwn(fields)), func(key, value ast.Node) error {
		name := key.GetToken().Value
		i := slices.IndexFunc(fields, func(x field) bool { return x.name == name })
		switch {
		case i < 0:
			return excerpt.Errorf("no such key of %s, must be %s%s", what, cli.Either(f.listOwn(fields)), nearest.Ask(name, namesOf(fields)))
		case seen.Has(name):
			return f.ErrorAt(key, "%s is given twice", name)
		}
		seen = append(seen, name)
		return f.readField(value, &fields[i])
	})
	return seen, err
}

// ReadPairs calls read for each entry of a mapping in order. what is the name of the mapping in errors.
func (f *File) ReadPairs(node ast.Node, what string, read func(key, value ast.Node) error) error {
	entries, ok := PairsOf(node)
	if !ok {
		return f.ErrorAt(node, "must be %s", what)
	}
	for _, e := range entries {
		if err := read(e.Key, e.Value); err != nil {
			return f.PlaceError(e.Key, excerpt.Errorf("%s: %w", e.Key.GetToken().Value, err))
		}
	}
	return nil
}

// has reports whether files of this kind have the key.
func (f *File) has(x *field) bool {
	return x.kinds == "" || slices.Contains(strings.Fields(x.kinds), f.Kind)
}

// listOwn returns the keys of files of this kind.
func (f *File) listOwn(fields []field) []string {
	return namesOf(slices.DeleteFunc(slices.Clone(fields), func(x field) bool { return !f.has(&x) }))
}

func (f *File) readField(node ast.Node, x *field) error {
	switch {
	case !f.has(x):
		return f.Only(strings.Fields(x.kinds))
	case x.group != nil:
		_, err := f.readMapping(node, x.name, x.group)
		return err
	}
	return f.readValue(node, x.to, x.tag)
}

// readValue reads a node into a value according to its tag and type.
func (f *File) readValue(node ast.Node, to reflect.Value, tag reflect.StructTag) error {
	if rule := f.Rules[tag.Get("is")]; rule.Read != nil {
		return rule.Read(node, to.Addr().Interface())
	}
	if body, ok := to.Addr().Interface().(*ast.Node); ok {
		*body = node
		return nil
	}
	switch to.Kind() {
	case reflect.Slice:
		to.SetZero()
		return f.ReadList(node, tag.Get("list"), func(item ast.Node) error {
			one := reflect.New(to.Type().Elem()).Elem()
			read := f.Rules[tag.Get("each")].Read
			if read == nil {
				read = func(item ast.Node, _ any) error { return f.readValue(item, one, tag) }
			}
			err := read(item, one.Addr().Interface())
			to.Set(reflect.Append(to, one))
			return err
		})
	case reflect.Map:
		to.Set(reflect.MakeMap(to.Type()))
		return f.ReadPairs(node, "names with values", func(key, value ast.Node) error {
			one := reflect.New(to.Type().Elem()).Elem()
			err := f.readValue(value, one, tag)
			to.SetMapIndex(reflect.ValueOf(key.GetToken().Value), one)
			return err
		})
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return f.readValue(node, to.Elem(), tag)
	case reflect.Struct:
		_, err := f.Read(node, tag.Get("what"), to.Addr().Interface())
		return err
	}
	text, err := TextOf(node)
	if err != nil {
		return err
	}
	return setText(to, text, tag.Get("is"))
}

// ReadList calls read for each entry of a list. what is the name of the entries in errors.
func (f *File) ReadList(node ast.Node, what string, read func(ast.Node) error) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return fmt.Errorf("must be a list of %s", what)
	}
	for _, item := range list.Values {
		if err := read(item); err != nil {
			return err
		}
	}
	return nil
}
