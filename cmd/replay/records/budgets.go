package records

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/report/budget"
)

// budgets is a file of budgets while it is read.
type budgets struct{ *budget.File }

// readBudgets reads a file of budgets.
func readBudgets(path string) (*budget.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := budgets{&budget.File{Path: path, Exact: true, Text: text}}
	bodies, err := yamlfile.ListBodies(path, text)
	if err != nil {
		return nil, err
	}
	for _, body := range bodies {
		entries, err := entriesOf(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, e := range entries {
			if err := f.readEntry(e); err != nil {
				return nil, fmt.Errorf("%s: %w", yamlfile.PlaceOf(path, e.Key), err)
			}
		}
	}
	if len(f.Budgets) == 0 {
		return nil, fmt.Errorf("%s: no budgets, want at least one", path)
	}
	return f.File, nil
}

func entriesOf(node ast.Node) ([]*ast.MappingValueNode, error) {
	if _, null := node.(*ast.NullNode); null {
		return nil, nil
	}
	if entries, ok := yamlfile.PairsOf(node); ok {
		return entries, nil
	}
	return nil, fmt.Errorf("line %d: want names with values", node.GetToken().Position.Line)
}

func (f budgets) readEntry(e *ast.MappingValueNode) error {
	switch key := e.Key.GetToken().Value; key {
	case "run":
		return f.takeCommand(e.Value)
	case "behaviour":
		text := e.Value.GetToken().Value
		if text != "exact" && text != "free" {
			return excerpt.Errorf("behaviour is %q, want exact or free%s", text, nearest.Ask(text, []string{"exact", "free"}))
		}
		f.Exact = text == "exact"
		return nil
	case "budgets":
		return f.takeBudgets(e.Value)
	case "baseline":
		return f.takeBaseline(e.Value)
	default:
		return excerpt.Errorf("%s: no such entry, want run, behaviour, budgets or baseline%s", key, nearest.Ask(key, []string{"run", "behaviour", "budgets", "baseline"}))
	}
}

// takeCommand reads a command line: a list of words, or a text of words without
// quotes in it.
func (f budgets) takeCommand(node ast.Node) error {
	switch n := node.(type) {
	case *ast.StringNode:
		f.Command = strings.Fields(n.Value)
		if strings.ContainsAny(n.Value, "'\"\\`$") {
			return errors.New("run: quotes are not understood, want a list of words for a command line with any")
		}
	case *ast.LiteralNode:
		f.Command = strings.Fields(n.Value.Value)
	case *ast.SequenceNode:
		if err := yaml.NodeToValue(n, &f.Command); err != nil {
			return errors.New("run: want a list of words")
		}
	default:
		return errors.New("run: want a command line, as trace requests.jsonl --workers 8")
	}
	if len(f.Command) > 0 && f.Command[0] == "replay" {
		f.Command = f.Command[1:]
	}
	if len(f.Command) == 0 {
		return errors.New("run: is empty, want a command line")
	}
	return nil
}

func (f budgets) takeBudgets(node ast.Node) error {
	entries, err := entriesOf(node)
	if err != nil {
		return err
	}
	for _, e := range entries {
		key, value := e.Key.GetToken(), e.Value.GetToken()
		b, err := budget.Parse(key.Value, value.Value)
		if err != nil {
			return excerpt.Errorf("line %d: %w", key.Position.Line, err)
		}
		b.Line = key.Position.Line
		f.Budgets = append(f.Budgets, b)
	}
	return nil
}

// takeBaseline reads the values in the file, or those of the file it names,
// which is looked for beside it.
func (f budgets) takeBaseline(node ast.Node) error {
	if n, ok := node.(*ast.StringNode); ok {
		path := n.Value
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(f.Path), path)
		}
		run, err := budget.Load(path)
		if err != nil {
			return err
		}
		f.Baseline = &budget.Baseline{Lifecycles: run.Lifecycles, Values: run.Values, From: path}
		return nil
	}
	var in struct {
		Lifecycles string             `yaml:"lifecycles"`
		Values     map[string]float64 `yaml:"values"`
	}
	if err := yaml.NodeToValue(node, &in, yaml.DisallowUnknownField()); err != nil {
		return errors.New("baseline: want lifecycles and values, as replay check --update writes them, or the name of a report")
	}
	f.Baseline = &budget.Baseline{Lifecycles: in.Lifecycles, Values: in.Values}
	return nil
}
