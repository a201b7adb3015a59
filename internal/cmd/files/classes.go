package files

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/schema"
	"github.com/replay-llm/replay/sim"
)

// ParseClasses parses a list of classes (docs/classes.md). path is the name of the file in errors.
func ParseClasses(path string, text []byte) ([]loadgen.Class, error) {
	f := newClassFile(path)
	bodies, err := yamlfile.ListBodies(path, text)
	switch {
	case err != nil:
		return nil, err
	case len(bodies) != 1:
		return nil, fmt.Errorf("%s: %d documents, expected one list of classes", path, len(bodies))
	}
	var all []loadgen.Class
	err = f.ReadList(bodies[0], "classes, as - {class: chat, when: request.input_tokens < 4000, deadline: 1s}", func(item ast.Node) error {
		var c loadgen.Class
		seen, err := f.Read(item, "a class", &c)
		c.Ranked = seen.Has("priority")
		switch {
		case err != nil:
			return err
		case c.Name == "":
			return f.ErrorAt(item, "a class without class, its name")
		case slices.ContainsFunc(all, func(b loadgen.Class) bool { return b.Name == c.Name }):
			return f.ErrorAt(item, "class %s is there already, must be one entry, its conditions joined by ||", c.Name)
		}
		all = append(all, c)
		return nil
	})
	if err == nil && len(all) == 0 {
		return nil, fmt.Errorf("%s: no classes, must have at least one", path)
	}
	return all, f.PlaceError(bodies[0], err)
}

// newClassFile returns a file of classes with its rules.
func newClassFile(path string) *yamlfile.File {
	f := &yamlfile.File{Path: path}
	f.Rules = rules{
		"class": yamlfile.To(readClassName), "condition": f.Expression(loadgen.CheckCondition), "deadline": yamlfile.To(readDeadline),
		"priority": yamlfile.To(readPriority).As(schema.Shape{"type": "integer", "minimum": math.MinInt32, "maximum": math.MaxInt32}),
	}
	return f
}

func readClassName(node ast.Node, to *string) (err error) {
	if *to, err = yamlfile.TextOf(node); err != nil {
		return err
	}
	return loadgen.CheckClassName(*to)
}

// readDeadline reads a time greater than 0.
func readDeadline(node ast.Node, to *sim.Time) error {
	text, err := yamlfile.TextOf(node)
	if err != nil {
		return err
	}
	*to, err = cli.ParseInstant(text)
	if err == nil && *to <= 0 {
		err = errors.New("must be a time above 0")
	}
	if err != nil {
		return excerpt.Errorf("%s: %w", text, err)
	}
	return nil
}

// readPriority reads an integer. The format 1e3 is also valid.
func readPriority(node ast.Node, to *int32) error {
	var n float64
	if err := yamlfile.ReadScalar(node, &n, "-2147483648..2147483647"); err != nil {
		return err
	}
	if *to = int32(n); float64(*to) != n {
		return fmt.Errorf("%v, must be a whole number", n)
	}
	return nil
}
