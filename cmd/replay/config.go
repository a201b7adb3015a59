package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"
)

// config is a file that holds flags.
type config struct {
	path   string
	places map[string]string // where the file sets a flag, by name
}

func (c *config) bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.path, "config", "", "YAML `file` that holds flags by name, without dashes; a flag given here wins")
}

// apply gives flags that are not on the command line the values of the file.
func (c *config) apply(o *options) error {
	if c.path == "" {
		return nil
	}
	text, err := os.ReadFile(c.path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	return c.applyText(o, text)
}

func (c *config) applyText(o *options, text []byte) error {
	entries, err := c.entries(text)
	if err != nil {
		return err
	}
	c.places = map[string]string{}
	given := map[string]bool{}
	o.fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, entry := range entries {
		if err := c.set(o, entry, given); err != nil {
			return err
		}
	}
	return nil
}

// entries are the lines of the file.
func (c *config) entries(text []byte) ([]*ast.MappingValueNode, error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			return nil, usagef("%s:%d: %s", c.path, syntax.Token.Position.Line, syntax.Message)
		}
		return nil, usagef("%s: %v", c.path, err)
	}
	var entries []*ast.MappingValueNode
	for _, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil:
		case *ast.MappingNode:
			entries = append(entries, body.Values...)
		case *ast.MappingValueNode:
			entries = append(entries, body)
		default:
			return nil, usagef("%s:%d: want flags, one per line, as name: value", c.path, body.GetToken().Position.Line)
		}
	}
	return entries, nil
}

func (c *config) set(o *options, entry *ast.MappingValueNode, given map[string]bool) error {
	key := entry.Key.GetToken()
	place := fmt.Sprintf("%s:%d", c.path, key.Position.Line)
	flag := o.fs.Lookup(key.Value)
	if flag == nil || flag.Name == "config" || flag.Name == "help" {
		return usagef("%s: %s: no such flag", place, key.Value)
	}
	if first, ok := c.places[flag.Name]; ok {
		return usagef("%s: %s: set before, at %s", place, key.Value, first)
	}
	c.places[flag.Name] = place
	text, err := scalar(entry.Value)
	if err != nil {
		return usagef("%s: %s: %v", place, key.Value, err)
	}
	if given[flag.Name] {
		delete(c.places, flag.Name)
		return nil
	}
	if err := flag.Value.Set(text); err != nil {
		return usagef("%s: %s: %s: want %s", place, key.Value, text, wantedKind(flag.Value.Type(), err))
	}
	flag.Changed = true
	return nil
}

// scalar is the text of a value as a command line would have it; mappings
// become JSON.
func scalar(node ast.Node) (string, error) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.MappingNode, *ast.MappingValueNode:
		var v any
		if err := yaml.NodeToValue(n, &v); err != nil {
			return "", errors.New("cannot be read")
		}
		text, err := json.Marshal(v)
		return string(text), err
	}
	return "", errors.New("want a single value")
}
