package yamlfile

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/schema"
	"github.com/replay-llm/replay/sim"
)

// ReadChoice reads a value that must be one of the names.
func ReadChoice[T ~string](node ast.Node, names []T) (T, error) {
	text, err := TextOf(node)
	if err == nil && !slices.Contains(names, T(text)) {
		all := cli.Names(names)
		err = excerpt.Errorf("%s: must be %s%s", strings.TrimSpace(text), cli.Either(all), nearest.Ask(text, all))
	}
	return T(text), err
}

// OneOf returns a rule for values that must be one of the names.
func OneOf[T ~string](names []T) Rule {
	return To(func(node ast.Node, to *T) (err error) {
		*to, err = ReadChoice(node, names)
		return err
	}).As(schema.OneOf(cli.Names(names)))
}

// ReadName reads a text that must not be empty.
func ReadName(node ast.Node, to *string) error {
	text, err := TextOf(node)
	if *to = strings.TrimSpace(text); err == nil && *to == "" {
		return errors.New("must be a name")
	}
	return err
}

// Expression returns a rule for expressions that check accepts. Errors have the line in the file.
func (f *File) Expression(check func(string) error) Rule {
	return To(func(node ast.Node, to *string) error {
		text, err := TextOf(node)
		if err != nil {
			return err
		}
		*to = strings.TrimSpace(text)
		line := node.GetToken().Position.Line
		if _, isBlock := node.(*ast.LiteralNode); isBlock {
			line++
		}
		var complaint *formula.Error
		if err := check(*to); errors.As(err, &complaint) {
			return placedError{excerpt.Errorf("%s:%d: %s", f.Path, line+complaint.Line-1, complaint.Text)}
		} else if err != nil {
			return err
		}
		return nil
	})
}

// ReadScalar reads a text, a time, or a number within bounds such as 1..8.
func ReadScalar[T string | int | int32 | float64 | sim.Time](node ast.Node, to *T, bounds string) error {
	text, err := TextOf(node)
	if err == nil {
		err = setText(reflect.ValueOf(to).Elem(), text, bounds)
	}
	return err
}
