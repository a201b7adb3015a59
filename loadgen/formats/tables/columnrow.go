package tables

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// openTable opens a table with a header. Columns are separated by commas, tabs or semicolons.
func (c *columnRows) openTable(head string) (formats.Reader, error) {
	t := &csvRows{s: c.s, comma: ',', ends: c.ends, table: table{Name: Columns, row: c.readCells}}
	header, _, _ := strings.Cut(strings.TrimLeft(head, "\r\n"), "\n")
	for _, comma := range "\t;" {
		if strings.Count(header, string(comma)) > strings.Count(header, string(rune(t.comma))) {
			t.comma = byte(comma)
		}
	}
	names, err := t.readHeader()
	if err != nil {
		return nil, err
	}
	t.names = c.plan.names[:]
	for _, name := range c.plan.names {
		at := slices.Index(names, name)
		switch {
		case at < 0 && name != "":
			return nil, c.s.Lines.Errorf("%v", refuseColumn(name, names))
		case name == "":
			at = -1
		case slices.Contains(names[at+1:], name):
			return nil, c.s.Lines.Errorf("two columns are %q, must be one", name)
		}
		t.where = append(t.where, at)
	}
	t.cells = make([][]byte, len(t.where))
	return t, nil
}

// readCells fills r from a row of a table.
func (c *columnRows) readCells(t *csvRows, r *formats.Record) bool {
	if err := c.fill(t.cells, r); err != nil {
		t.complain("%v", err)
	}
	return true
}

// fill fills r from the cells of a row. The index of a cell is its role.
func (c *columnRows) fill(cells [][]byte, r *formats.Record) (err error) {
	if r.Input, err = c.readTokens(roleInput, cells); err != nil {
		return err
	}
	if r.Output, err = c.readTokens(roleOutput, cells); err != nil {
		return err
	}
	if err := c.readIDs(cells[roleHash], r); err != nil {
		return err
	}
	if err := c.readRank(cells, r); err != nil {
		return err
	}
	timed := c.plan.names[roleArrival] != ""
	if timed {
		at, err := c.readArrival(cells[roleArrival])
		if err != nil {
			return err
		}
		r.Arrives(at)
	}
	if id := cells[roleSession]; len(id) > 0 {
		r.Group = id
		if c.s.Chained {
			r.Session = id
			if timed {
				c.ends.Chain(r, id, r.When)
			}
		}
	}
	if !timed && (r.Session == nil || c.begins(r.Session)) {
		c.s.ArrivePaced(r)
	}
	return nil
}

// begins reports whether a request is the first of its session. begins is for tables without arrivals.
func (c *columnRows) begins(session []byte) bool {
	_, known := c.ends[string(session)]
	if !known {
		c.ends[string(session)] = scan.Stamp{}
	}
	return !known
}

// readTokens reads a number of tokens. readTokens accepts 12.0, because some tools write integers of columns with
// empty cells as decimals.
func (c *columnRows) readTokens(which role, cells [][]byte) (int, error) {
	name, cell := c.plan.names[which], cells[which]
	digits := cell
	if whole, zeros, ok := bytes.Cut(cell, []byte{'.'}); ok && len(bytes.Trim(zeros, "0")) == 0 {
		digits = whole
	}
	n, ok := scan.WholeNumber(digits)
	if len(cell) == 0 {
		return 0, fmt.Errorf("%s is empty, must be a number of tokens", name)
	}
	if !ok || n > scan.MaxTokens {
		return 0, fmt.Errorf("%s is %q, must be a number of tokens, 0 to %d", name, excerpt.Cut(cell), scan.MaxTokens)
	}
	return int(n), nil
}

// latest is an upper limit for arrivals in seconds: the year 5138.
const latest = 100_000_000_000

// readArrival reads an arrival by arrival_format or arrival_unit. Without them it is a number of seconds, or a date
// and time.
func (c *columnRows) readArrival(cell []byte) (scan.Stamp, error) {
	name, kind := c.plan.names[roleArrival], "a number"
	if c.plan.layout != "" {
		at, err := time.Parse(c.plan.layout, string(cell))
		if err != nil {
			return scan.Stamp{}, fmt.Errorf("%s is %q, must be a date and time as %s", name, excerpt.Cut(cell), c.plan.format)
		}
		return scan.ExactStamp(at.UnixNano()), nil
	}
	at, ok := scan.DecimalStamp(cell, c.plan.scale())
	if ok = ok && scan.IsNumeric(cell); !ok && c.plan.unit == "" {
		var zoned bool
		at, zoned, ok = scan.CalendarStamp(cell)
		if kind = "a date and time without a zone"; zoned {
			kind = "a date and time with a zone"
		}
	}
	switch {
	case !ok && c.plan.unit != "":
		return at, fmt.Errorf("%s is %q, must be a number of %s", name, excerpt.Cut(cell), c.plan.unit)
	case !ok:
		return at, fmt.Errorf("%s is %q, must be a number of seconds, or a date and time such as 2026-01-31T18:15:46.68Z; --arrival-format reads other dates", name, excerpt.Cut(cell))
	case kind == "a number" && c.plan.unit == "" && at.MS/1000 >= latest:
		return at, fmt.Errorf("%s is %s, which are more than 3000 years in seconds; set arrival_unit=ms, us or ns among the columns, or s if it is correct", name, excerpt.Cut(cell))
	case c.kind != "" && c.kind != kind:
		return at, fmt.Errorf("%s is %q, %s; the rows before had %s, must have the same on all", name, excerpt.Cut(cell), kind, c.kind)
	}
	c.kind = kind
	return at, nil
}

// readRank reads the class and the priority of a request. Invalid characters of the class are replaced by dashes.
func (c *columnRows) readRank(cells [][]byte, r *formats.Record) error {
	if name := cells[roleClass]; len(name) > 0 {
		r.Class = append(r.Class[:0], name...)
		for i, b := range r.Class {
			if loadgen.CheckClassName(string(b)) != nil {
				r.Class[i] = '-'
			}
		}
		if err := loadgen.CheckClassName(string(r.Class)); err != nil {
			return fmt.Errorf("%s: %w", c.plan.names[roleClass], err)
		}
	}
	if cell := cells[rolePriority]; len(cell) > 0 {
		n, err := strconv.ParseInt(string(cell), 10, 32)
		if err != nil {
			return fmt.Errorf("%s is %q, must be a whole number of 32 bits", c.plan.names[rolePriority], excerpt.Cut(cell))
		}
		r.Priority = int32(n)
	}
	return nil
}

// readIDs reads block ids, which are numbers or names. The ids are a JSON list, or they are separated by blanks,
// commas, semicolons or bars.
func (c *columnRows) readIDs(cell []byte, r *formats.Record) error {
	if len(cell) == 0 {
		return nil
	}
	if cell[0] == '[' && scan.CheckValue(cell) == nil {
		parts, _ := scan.SplitList(cell, nil)
		for i, p := range parts {
			switch {
			case p[0] == '"':
				p = scan.UnquoteString(p)
			case !scan.IsNumeric(p):
				return fmt.Errorf("%s[%d] is %s, must be a number or a string", c.plan.names[roleHash], i, excerpt.Cut(p))
			}
			r.IDs = append(r.IDs, c.ids.Of(string(p)))
		}
		return nil
	}
	for _, id := range bytes.FieldsFunc(bytes.Trim(cell, "[]"), func(b rune) bool { return strings.ContainsRune(" \t,;|", b) }) {
		r.IDs = append(r.IDs, c.ids.Of(string(bytes.Trim(id, `'"`))))
	}
	return nil
}
