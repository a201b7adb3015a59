package options

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/sim"
)

// fillClasses enters into spec of which classes requests are.
func (o *Options) fillClasses(spec *replay.Spec) error {
	path := o.input.classes
	if path == "" {
		return nil
	}
	if o.Reference {
		return cli.Usagef("--classes: no such flag")
	}
	text, err := os.ReadFile(path)
	if err == nil {
		spec.Classes, err = ParseClasses(path, text)
	}
	if err != nil {
		return fmt.Errorf("--classes: %w", err)
	}
	return nil
}

// ParseClasses reads a list of classes (docs/classes.md). path is what errors call it.
func ParseClasses(path string, text []byte) ([]loadgen.Class, error) {
	bodies, err := cli.YamlBodies(path, text)
	switch {
	case err != nil:
		return nil, err
	case len(bodies) != 1:
		return nil, fmt.Errorf("%s: %d documents, want one list of classes", path, len(bodies))
	}
	f := &policyFile{yamlFile: yamlFile{path}}
	var all []loadgen.Class
	err = f.readList(bodies[0], "classes, as - {class: chat, when: request.input_tokens < 4000, deadline: 1s}", func(item ast.Node) error {
		c, err := f.readClass(item)
		if err == nil && slices.ContainsFunc(all, func(b loadgen.Class) bool { return b.Name == c.Name }) {
			err = f.errorAt(item, "class %s is there already, want one entry, its conditions joined by ||", c.Name)
		}
		all = append(all, c)
		return err
	})
	if err != nil {
		if errors.As(err, new(placedError)) {
			return nil, err
		}
		return nil, f.errorAt(bodies[0], "%v", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no classes, want at least one", path)
	}
	return all, nil
}

// readClass reads an entry of the list.
func (f *policyFile) readClass(item ast.Node) (c loadgen.Class, err error) {
	deadline, priority := 0.0, 0.0
	seen, err := f.readKeys(item, "a class",
		yamlKey{"class", func(n ast.Node) (err error) {
			if c.Name, err = cli.YamlText(n); err != nil {
				return err
			}
			return loadgen.CheckClassName(c.Name)
		}},
		yamlKey{"when", func(n ast.Node) error { return f.readExpression(n, &c.When, loadgen.CheckCondition) }},
		yamlKey{"priority", func(n ast.Node) error { return readNumber(n, &priority, -1<<31, 1<<31-1) }},
		yamlKey{"deadline", func(n ast.Node) error { return readDeadline(n, &deadline) }},
		yamlKey{"weight", func(n ast.Node) error { return readNumber(n, &c.Weight, 1e-6, 1e6) }})
	c.Priority, c.Ranked, c.Deadline = int32(priority), slices.Contains(seen, "priority"), sim.Time(deadline)
	switch {
	case err != nil:
		return c, err
	case c.Name == "":
		return c, f.errorAt(item, "a class without class, its name")
	case float64(c.Priority) != priority:
		return c, f.errorAt(item, "priority is %v, must be a whole number", priority)
	}
	return c, nil
}

// readDeadline reads a time above 0.
func readDeadline(node ast.Node, ms *float64) error {
	text, err := cli.YamlText(node)
	if err != nil {
		return err
	}
	at, err := cli.ParseInstant(text)
	if err = cmp.Or(err, wantAbove(at)); err != nil {
		return excerpt.Errorf("%s: %w", text, err)
	}
	*ms = float64(at)
	return nil
}

func wantAbove(at sim.Time) error {
	if at > 0 {
		return nil
	}
	return errors.New("want a time above 0")
}
