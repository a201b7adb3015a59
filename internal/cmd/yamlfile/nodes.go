package yamlfile

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
)

// ListBodies returns the bodies of the documents in a file. Errors name the file and the line.
func ListBodies(path string, text []byte) ([]ast.Node, error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%s:%d: %s", path, syntax.Token.Position.Line, syntax.Message)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			all = append(all, doc.Body)
		}
	}
	return all, nil
}

// ListValues returns the values of the documents in a file as maps, lists and scalars.
func ListValues(path string, text []byte) ([]any, error) {
	bodies, err := ListBodies(path, text)
	if err != nil {
		return nil, err
	}
	all := make([]any, len(bodies))
	for i, body := range bodies {
		if err := yaml.NodeToValue(body, &all[i]); err != nil {
			return nil, fmt.Errorf("%s: cannot be read", PlaceOf(path, body))
		}
	}
	return all, nil
}

// ListEntries returns the entries of a file that has one flag per line.
func ListEntries(path string, text []byte) ([]*ast.MappingValueNode, error) {
	bodies, err := ListBodies(path, text)
	if err != nil {
		return nil, cli.WrongUsage(err)
	}
	var all []*ast.MappingValueNode
	for _, body := range bodies {
		entries, ok := PairsOf(body)
		if !ok {
			return nil, cli.Usagef("%s: must be flags, one per line, as name: value", PlaceOf(path, body))
		}
		all = append(all, entries...)
	}
	return all, nil
}

// PairsOf returns the entries of a mapping. PairsOf reports false if node is not a mapping.
func PairsOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// PlaceOf returns the file and the line of a node.
func PlaceOf(path string, node ast.Node) string {
	return fmt.Sprintf("%s:%d", path, node.GetToken().Position.Line)
}

// TextOf returns a value as the text of a flag. A mapping is converted to JSON.
func TextOf(node ast.Node) (string, error) {
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
	return "", errors.New("must be a single value")
}
