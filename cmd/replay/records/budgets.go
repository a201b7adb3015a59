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
	"github.com/replay-llm/replay/report/budget"
	"github.com/replay-llm/replay/schema"
)

// readBudgets reads a file of budgets.
func readBudgets(path string) (*budget.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, into := newBudgetFile(path), &budget.File{Path: path, Exact: true, Text: text}
	bodies, err := yamlfile.ListBodies(path, text)
	if err != nil {
		return nil, err
	}
	for _, body := range bodies {
		if _, err := f.Read(body, "a file of budgets", into); err != nil {
			return nil, err
		}
	}
	if len(into.Budgets) == 0 {
		return nil, fmt.Errorf("%s: no budgets, must have at least one", path)
	}
	return into, nil
}

// BudgetShape returns the JSON Schema of a file of budgets.
func BudgetShape() schema.Shape { return newBudgetFile("").Shape(budget.File{}, "") }

// newBudgetFile returns a file of budgets with its rules.
func newBudgetFile(path string) *yamlfile.File {
	f := &yamlfile.File{Path: path}
	text, behaviours := schema.TypeOf("string", "number"), []string{"exact", "free"}
	f.Rules = map[string]yamlfile.Rule{
		"command": yamlfile.To(readCommand).As(schema.AnyOf(schema.TypeOf("string"), schema.ListOf(text))),
		"behaviour": yamlfile.To(func(node ast.Node, exact *bool) error {
			name, err := yamlfile.ReadChoice(node, behaviours)
			*exact = name == "exact"
			return err
		}).As(schema.OneOf(behaviours)),
		"budgets": yamlfile.To(func(node ast.Node, all *[]budget.Budget) error {
			return f.ReadPairs(node, "names of values with budgets", func(key, value ast.Node) error {
				text, err := yamlfile.TextOf(value)
				if err != nil {
					return err
				}
				b, err := budget.Parse(key.GetToken().Value, text)
				b.Line = key.GetToken().Position.Line
				*all = append(*all, b)
				return err
			})
		}).As(schema.Shape{"type": "object", "additionalProperties": text}),
		"baseline": yamlfile.To(func(node ast.Node, to **budget.Baseline) error {
			*to = &budget.Baseline{}
			if n, ok := node.(*ast.StringNode); ok {
				return loadBaseline(*to, filepath.Dir(path), n.Value)
			}
			_, err := f.Read(node, "the name of a report, or a baseline as replay check --update writes it", *to)
			return err
		}).As(schema.AnyOf(schema.TypeOf("string"), f.Shape(budget.Baseline{}, ""))),
	}
	return f
}

// readCommand reads a command line: a list of words, or a text of words without quotes.
func readCommand(node ast.Node, to *[]string) error {
	switch n := node.(type) {
	case *ast.StringNode:
		if *to = strings.Fields(n.Value); strings.ContainsAny(n.Value, "'\"\\`$") {
			return errors.New(`quotes are not supported, must be a list of words: [trace, FILE, --policy-process, "python3 policy.py"]`)
		}
	case *ast.LiteralNode:
		*to = strings.Fields(n.Value.Value)
	default:
		if err := yaml.NodeToValue(n, to); err != nil {
			return errors.New("must be a command line, as trace requests.jsonl --workers 8, or a list of words")
		}
	}
	if len(*to) > 0 && (*to)[0] == "replay" {
		*to = (*to)[1:]
	}
	if len(*to) == 0 {
		return errors.New("is empty, must be a command line")
	}
	return nil
}

// loadBaseline reads the values of a report, the path of which is relative to dir.
func loadBaseline(to *budget.Baseline, dir, path string) error {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	run, err := budget.Load(path)
	if err != nil {
		return err
	}
	*to = budget.Baseline{Lifecycles: run.Lifecycles, Values: run.Values, From: path}
	return nil
}
