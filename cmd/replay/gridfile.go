package main

import (
	"fmt"
	"os"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/plan"
)

// gridFlags say what the cells of a sweep are.
type gridFlags struct {
	axes, common []string
	trace        string
}

func (f *gridFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.trace, "trace", "", "`file` to replay in all cells")
	fs.StringArrayVar(&f.axes, "grid", nil, "an axis: a flag and its values, as `workers=1,2,4`; may be repeated")
	fs.StringArrayVar(&f.common, "set", nil, "a flag of all cells, as `block-size=512`; may be repeated")
}

// grid is what file, "" for none, and the flags say; flags win.
func (f *gridFlags) grid(file string) (*plan.Grid, error) {
	g := &gridReader{known: newCellOptions().fs, path: file}
	if file != "" {
		if err := g.read(); err != nil {
			return nil, err
		}
	}
	if f.trace != "" {
		g.put(plan.Axis{Name: traceSetting, Values: []string{f.trace}}, false)
	}
	for _, list := range []struct {
		flag   string
		texts  []string
		isAxis bool
	}{{"set", f.common, false}, {"grid", f.axes, true}} {
		for _, text := range list.texts {
			axis, err := parseAxis(list.flag, text)
			if err != nil {
				return nil, err
			}
			if !list.isAxis && len(axis.Values) > 1 {
				return nil, usagef("--set=%s: want one value, or --grid", text)
			}
			g.put(axis, list.isAxis)
		}
	}
	if len(g.grid.Axes) == 0 && len(g.grid.Common) == 0 {
		return nil, usagef("no grid: want a file that says one, or --grid")
	}
	if err := g.grid.Check(); err != nil {
		return nil, usagef("grid: %v", err)
	}
	return &g.grid, nil
}

// traceSetting names the file that a cell replays, which on a command line is an
// argument.
const traceSetting = "trace"

// gridReader reads a grid from a file:
//
//	trace: requests.jsonl     a file or a list of files
//	set: {block-size: 512}    flags of all cells
//	grid: {workers: [1, 2]}   axes, the last of which runs fastest
type gridReader struct {
	known *pflag.FlagSet
	path  string
	grid  plan.Grid
}

// put adds an axis, or what all cells have, in place of what the file said of
// it.
func (g *gridReader) put(a plan.Axis, isAxis bool) {
	for i, s := range g.grid.Common {
		if s.Name == a.Name {
			g.grid.Common = append(g.grid.Common[:i], g.grid.Common[i+1:]...)
			break
		}
	}
	for i := range g.grid.Axes {
		if g.grid.Axes[i].Name != a.Name {
			continue
		}
		if isAxis {
			g.grid.Axes[i] = a
			return
		}
		g.grid.Axes = append(g.grid.Axes[:i], g.grid.Axes[i+1:]...)
		break
	}
	if isAxis {
		g.grid.Axes = append(g.grid.Axes, a)
		return
	}
	g.grid.Common = append(g.grid.Common, plan.Setting{Name: a.Name, Value: a.Values[0]})
}

func (g *gridReader) read() error {
	text, err := os.ReadFile(g.path)
	if err != nil {
		return err
	}
	entries, err := (&config{path: g.path}).entries(text)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch key := entry.Key.GetToken().Value; key {
		case traceSetting:
			err = g.entry(entry, false)
		case "set":
			err = g.section(entry, false)
		case "grid":
			err = g.section(entry, true)
		default:
			err = usagef("%s: %s: want trace, set or grid", g.place(entry), key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *gridReader) place(entry *ast.MappingValueNode) string {
	return fmt.Sprintf("%s:%d", g.path, entry.Key.GetToken().Position.Line)
}

// section reads the flags of set or grid.
func (g *gridReader) section(entry *ast.MappingValueNode, axes bool) error {
	var entries []*ast.MappingValueNode
	switch body := entry.Value.(type) {
	case *ast.MappingNode:
		entries = body.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{body}
	default:
		return usagef("%s: %s: want flags by name", g.place(entry), entry.Key.GetToken().Value)
	}
	for _, e := range entries {
		if err := g.entry(e, axes); err != nil {
			return err
		}
	}
	return nil
}

// entry reads one flag; a list of values makes it an axis.
func (g *gridReader) entry(entry *ast.MappingValueNode, axis bool) error {
	name := entry.Key.GetToken().Value
	if err := settable(g.known, name); err != nil {
		return usagef("%s: %v", g.place(entry), err)
	}
	a := plan.Axis{Name: ownName(g.known, name)}
	nodes := []ast.Node{entry.Value}
	if list, ok := entry.Value.(*ast.SequenceNode); ok {
		if !axis && name != traceSetting {
			return usagef("%s: %s: a list, want one value, or the list under grid", g.place(entry), name)
		}
		nodes, axis = list.Values, true
	}
	for _, node := range nodes {
		text, err := scalar(node)
		if err != nil {
			return usagef("%s: %s: %v", g.place(entry), name, err)
		}
		a.Values = append(a.Values, text)
	}
	if len(a.Values) == 0 {
		return usagef("%s: %s: no values, want at least 1", g.place(entry), name)
	}
	g.put(a, axis)
	return nil
}
