package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
)

// yamlFile is a file of YAML; its errors name the file and the line.
type yamlFile struct{ path string }

// placedError is an error that names its place.
type placedError struct{ error }

func (f yamlFile) errorAt(at ast.Node, format string, args ...any) error {
	return placedError{fmt.Errorf("%s: %s", cli.YamlPlace(f.path, at), excerpt.Sprintf(format, args...))}
}

// readBody returns what the only document of a file holds.
func (f yamlFile) readBody(text []byte, what string) (ast.Node, error) {
	bodies, err := cli.YamlBodies(f.path, text)
	switch {
	case err != nil && strings.Contains(err.Error(), "mapping value"):
		return nil, fmt.Errorf(`%w; an expression with ": " in it wants quotes around it, or | in front and a line of its own`, err)
	case err != nil:
		return nil, err
	case len(bodies) != 1:
		return nil, fmt.Errorf("%s: %d documents, want one %s", f.path, len(bodies), what)
	}
	return bodies[0], nil
}

// yamlKey is a key of a mapping, and what takes in its value.
type yamlKey struct {
	name string
	read func(ast.Node) error
}

// readKeys reads a mapping of these keys, of what has the given name, and returns those that are
// there.
func (f yamlFile) readKeys(node ast.Node, what string, keys ...yamlKey) (seen []string, err error) {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	entries, ok := cli.YamlPairs(node)
	if !ok {
		return nil, f.errorAt(node, "want %s, with %s", what, cli.Either(names))
	}
	for _, e := range entries {
		name := e.Key.GetToken().Value
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return nil, f.errorAt(e.Key, "%s: no such key of %s, want %s%s", name, what, cli.Either(names), nearest.Ask(name, names))
		case slices.Contains(seen, name):
			return nil, f.errorAt(e.Key, "%s is given twice", name)
		}
		seen = append(seen, name)
		var placed placedError
		if err := keys[i].read(e.Value); errors.As(err, &placed) {
			return nil, err
		} else if err != nil {
			return nil, f.errorAt(e.Key, "%s: %v", name, err)
		}
	}
	return seen, nil
}

// readList reads a list of what has the given name.
func (f yamlFile) readList(node ast.Node, what string, read func(ast.Node) error) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return fmt.Errorf("want a list of %s", what)
	}
	for _, item := range list.Values {
		if err := read(item); err != nil {
			return err
		}
	}
	return nil
}

// readChoice reads one of a few names.
func readChoice(node ast.Node, names ...string) (string, error) {
	text, err := cli.YamlText(node)
	if err == nil && !slices.Contains(names, text) {
		err = excerpt.Errorf("%s: want %s%s", strings.TrimSpace(text), cli.Either(names), nearest.Ask(text, names))
	}
	return text, err
}
