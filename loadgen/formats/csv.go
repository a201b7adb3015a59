package formats

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/loadgen"
)

// column is one that a table has to have, or may have.
type column struct {
	name  string
	maybe bool
}

// table is a CSV format: its columns, and what makes a record of a row.
type table struct {
	name    string
	columns []column
	// row makes r of a row; cells are in the order of columns, nil where a column
	// is not there.
	row func(c *csvRows, cells [][]byte, r *Record) (keep bool, err error)
	// begin, when not nil, says of the stream what the format fixes.
	begin func(s *Stream, have []bool) error
}

// open starts reading a file whose header is its first line.
func (t table) open(s *Stream) (rows, error) {
	line, err := s.lines.next()
	if err == io.EOF {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: "no requests in the file, want at least one"}
	}
	if err != nil {
		return nil, err
	}
	c := &csvRows{s: s, table: t, ends: make(lastEnds)}
	header, err := c.splitCells(line)
	if err != nil {
		return nil, err
	}
	have, err := c.placeColumns(header)
	if err != nil {
		return nil, err
	}
	if t.begin != nil {
		return c, t.begin(s, have)
	}
	return c, nil
}

// csvRows reads the rows of a table.
type csvRows struct {
	s      *Stream
	table  table
	where  []int // by column: its place in the file, or -1
	fields int   // of the header

	row   [][]byte // cells as the file has them
	cells [][]byte // in the order of the columns
	first int      // line of the row's beginning

	zoned, told bool // whether the first row has a time zone; whether there was one
	warned      bool
	ends        lastEnds
}

// placeColumns finds the columns in the header.
func (c *csvRows) placeColumns(header [][]byte) ([]bool, error) {
	c.fields = len(header)
	have := make([]bool, len(c.table.columns))
	for i, want := range c.table.columns {
		at := slices.IndexFunc(header, func(h []byte) bool { return string(bytes.TrimSpace(h)) == want.name })
		if at < 0 && !want.maybe {
			return nil, c.s.lines.errorf("header lacks %s, want %s", want.name, c.table.listColumns())
		}
		have[i] = at >= 0
		c.where = append(c.where, at)
	}
	c.cells = make([][]byte, len(c.where))
	return have, nil
}

func (t table) listColumns() string {
	var names []string
	for _, c := range t.columns {
		if !c.maybe {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, ",")
}

func (c *csvRows) next(r *Record) error {
	for {
		line, err := c.s.lines.next()
		if err != nil {
			return err
		}
		c.first = c.s.lines.line
		row, err := c.splitCells(line)
		if err != nil {
			return err
		}
		r.reset(c.first)
		if len(row) != c.fields {
			return c.errorf("%d fields, want %d", len(row), c.fields)
		}
		for i, at := range c.where {
			c.cells[i] = nil
			if at >= 0 {
				c.cells[i] = row[at]
			}
		}
		keep, err := c.table.row(c, c.cells, r)
		if err != nil {
			return err
		}
		if keep {
			return nil
		}
		c.s.dropped++
	}
}

func (c *csvRows) errorf(format string, args ...any) error {
	return &loadgen.SyntaxError{Name: c.s.Name, Line: c.first, Msg: fmt.Sprintf(format, args...)}
}

// splitCells cuts a row into cells; a quoted cell may go on over further lines.
func (c *csvRows) splitCells(line []byte) ([][]byte, error) {
	c.row = c.row[:0]
	if bytes.IndexByte(line, '"') >= 0 {
		return c.splitQuoted(line)
	}
	for {
		i := bytes.IndexByte(line, ',')
		if i < 0 {
			c.row = append(c.row, line)
			return c.row, nil
		}
		c.row = append(c.row, line[:i])
		line = line[i+1:]
	}
}

func (c *csvRows) splitQuoted(line []byte) ([][]byte, error) {
	c.first = c.s.lines.line
	line = bytes.Clone(line) // more lines may be read
	for {
		if len(line) == 0 || line[0] != '"' {
			i := bytes.IndexByte(line, ',')
			if i < 0 {
				c.row = append(c.row, line)
				return c.row, nil
			}
			c.row = append(c.row, line[:i])
			line = line[i+1:]
			continue
		}
		cell, rest, err := c.quotedCell(line[1:])
		if err != nil {
			return nil, err
		}
		c.row = append(c.row, cell)
		if len(rest) == 0 {
			return c.row, nil
		}
		if rest[0] != ',' {
			return nil, c.errorf("%q after a closing quote in field %d, want a comma", cutExcerpt(rest), len(c.row))
		}
		line = rest[1:]
	}
}

// quotedCell reads up to the closing quote; a doubled quote is one.
func (c *csvRows) quotedCell(line []byte) (cell, rest []byte, err error) {
	for {
		i := bytes.IndexByte(line, '"')
		switch {
		case i < 0:
			cell = append(append(cell, line...), '\n')
			next, err := c.s.lines.readLine()
			if err == io.EOF {
				return nil, nil, c.errorf("quote opened on line %d is not closed, want a quote", c.first)
			}
			if err != nil {
				return nil, nil, err
			}
			if len(cell) > maxLine {
				return nil, nil, &fatalError{c.errorf("quote opened on line %d is not closed within %d bytes", c.first, maxLine)}
			}
			line = bytes.Clone(next)
		case i+1 < len(line) && line[i+1] == '"':
			cell = append(cell, line[:i+1]...)
			line = line[i+2:]
		default:
			return append(cell, line[:i]...), line[i+1:], nil
		}
	}
}

// parseTokens reads a number of tokens.
func (c *csvRows) parseTokens(name string, cell []byte) (int, error) {
	cell = bytes.TrimSpace(cell)
	n, ok := wholeNumber(cell)
	if !ok {
		return 0, c.errorf("%s is %q, want an integer", name, cutExcerpt(cell))
	}
	if n > maxTokens {
		return 0, c.errorf("%s is %d, want at most %d", name, n, maxTokens)
	}
	return int(n), nil
}

// parseSeconds reads a number of seconds.
func (c *csvRows) parseSeconds(name string, cell []byte) (stamp, error) {
	cell = bytes.TrimSpace(cell)
	if !isNumeric(cell) {
		return stamp{}, c.errorf("%s is %q, want a finite number", name, cutExcerpt(cell))
	}
	s, ok := decimalStamp(cell, 9)
	if !ok {
		return stamp{}, c.errorf("%s is %q, want a finite number", name, cutExcerpt(cell))
	}
	return s, nil
}

// detectTable finds the table whose columns the header has, or the one it is
// nearest to.
func (s *Stream) detectTable(header sample) (kind, error) {
	c := &csvRows{s: s}
	cells, err := c.splitCells(bytes.TrimSuffix(header.text, []byte{'\r'}))
	if err != nil {
		return kind{}, err
	}
	var names []string
	for _, cell := range cells {
		names = append(names, string(bytes.TrimSpace(cell)))
	}
	best, most := table{}, 0
	for _, t := range listTables() {
		n, lacks := 0, false
		for _, col := range t.columns {
			if slices.Contains(names, col.name) {
				n++
			} else if !col.maybe {
				lacks = true
			}
		}
		if !lacks {
			return kind{name: t.name, open: t.open}, nil
		}
		if n > most || n == most && n > 0 && len(t.columns) < len(best.columns) {
			best, most = t, n
		}
	}
	if most == 0 {
		return kind{}, unknownFormat(s.Name, header.line, names)
	}
	return kind{name: best.name, open: best.open}, nil
}
