package tables

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// table is a CSV format with its columns and functions.
type table struct {
	Name   string
	needed string // required columns, separated by commas
	maybe  string // optional columns, with a comma before each
	// row fills r from a row and reports whether it is kept.
	row func(c *csvRows, r *formats.Record) (keep bool)
	// begin sets fields of the stream that the format defines.
	begin func(s *formats.Stream, have []bool)
}

// Open opens a file with its header in the first line.
func (t table) Open(s *formats.Stream) (formats.Reader, error) {
	c := &csvRows{s: s, table: t, comma: ',', ends: make(formats.LastEnds)}
	header, err := c.readHeader()
	if err != nil {
		return nil, err
	}
	have, err := c.placeColumns(header)
	if err != nil {
		return nil, err
	}
	t.begin(s, have)
	return c, nil
}

// csvRows reads the rows of a table.
type csvRows struct {
	s      *formats.Stream
	table  table
	names  []string // column names
	where  []int    // index in the row, by column; -1 if the column is missing
	fields int      // number of fields in the header
	comma  byte     // separator

	row   [][]byte // cells in the order of the file
	cells [][]byte // trimmed cells in the order of names; nil if the column is missing
	first int      // line number of the start of the row
	err   error    // first error in the row; later reads of the row return 0

	zoned, told bool // the first timestamp has a time zone; there was a timestamp
	warned      bool
	ends        formats.LastEnds
}

// readHeader returns the column names in the first line.
func (c *csvRows) readHeader() ([]string, error) {
	line, err := c.s.Lines.Next()
	if err == io.EOF {
		return nil, &loadgen.SyntaxError{Name: c.s.Name, Msg: "no requests in the file, must have at least one"}
	}
	if err != nil {
		return nil, err
	}
	return c.splitHeader(line)
}

func (c *csvRows) splitHeader(line []byte) (names []string, err error) {
	cells, err := c.splitCells(line)
	c.fields = len(cells)
	for _, cell := range cells {
		names = append(names, string(bytes.TrimSpace(cell)))
	}
	return names, err
}

// placeColumns finds the index of each column in the header.
func (c *csvRows) placeColumns(header []string) ([]bool, error) {
	var needed int
	c.names, needed = c.table.listColumns()
	have := make([]bool, len(c.names))
	for i, want := range c.names {
		at := slices.Index(header, want)
		if at < 0 && i < needed {
			return nil, c.s.Lines.Errorf("header lacks %s, must be %s", want, c.table.needed)
		}
		have[i] = at >= 0
		c.where = append(c.where, at)
	}
	c.cells = make([][]byte, len(c.where))
	return have, nil
}

// listColumns returns the columns. The first needed columns are required.
func (t table) listColumns() (names []string, needed int) {
	return strings.Split(t.needed+t.maybe, ","), strings.Count(t.needed, ",") + 1
}

func (c *csvRows) Next(r *formats.Record) error {
	for {
		line, err := c.s.Lines.Next()
		if err != nil {
			return err
		}
		c.first = c.s.Lines.Line
		row, err := c.splitCells(line)
		if err != nil {
			return err
		}
		c.err = nil
		r.Reset(c.first)
		if len(row) != c.fields {
			return c.errorf("%d fields, must be %d", len(row), c.fields)
		}
		for i, at := range c.where {
			c.cells[i] = nil
			if at >= 0 {
				c.cells[i] = bytes.TrimSpace(row[at])
			}
		}
		if keep := c.table.row(c, r); keep || c.err != nil {
			return c.err
		}
		c.s.Drop()
	}
}

// complain stores the first error of a row.
func (c *csvRows) complain(format string, args ...any) {
	if c.err == nil {
		c.err = c.errorf(format, args...)
	}
}

func (c *csvRows) errorf(format string, args ...any) error {
	return &loadgen.SyntaxError{Name: c.s.Name, Line: c.first, Msg: excerpt.Sprintf(format, args...)}
}

// splitCells divides a row into cells. A quoted cell can contain line ends.
func (c *csvRows) splitCells(line []byte) ([][]byte, error) {
	c.row = c.row[:0]
	if bytes.IndexByte(line, '"') >= 0 {
		return c.splitQuoted(line)
	}
	for more := true; more; {
		var cell []byte
		cell, line, more = bytes.Cut(line, []byte{c.comma})
		c.row = append(c.row, cell)
	}
	return c.row, nil
}

func (c *csvRows) splitQuoted(line []byte) ([][]byte, error) {
	c.first = c.s.Lines.Line
	line = bytes.Clone(line) // ReadLine may overwrite line
	for {
		if len(line) == 0 || line[0] != '"' {
			cell, rest, more := bytes.Cut(line, []byte{c.comma})
			c.row = append(c.row, cell)
			if !more {
				return c.row, nil
			}
			line = rest
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
		if rest[0] != c.comma {
			return nil, c.errorf("%q after a closing quote in field %d, must be %s", excerpt.Cut(rest), len(c.row), c.nameComma())
		}
		line = rest[1:]
	}
}

// nameComma returns the name of the separator, for messages.
func (c *csvRows) nameComma() string {
	switch c.comma {
	case '\t':
		return "a tab"
	case ';':
		return "a semicolon"
	}
	return "a comma"
}

// quotedCell reads up to the closing quote. Two quotes in the cell are one quote character.
func (c *csvRows) quotedCell(line []byte) (cell, rest []byte, err error) {
	for {
		i := bytes.IndexByte(line, '"')
		switch {
		case i < 0:
			cell = append(append(cell, line...), '\n')
			next, err := c.s.Lines.ReadLine()
			if err == io.EOF {
				return nil, nil, c.errorf("quote opened on line %d is not closed, must be a quote", c.first)
			}
			if err != nil {
				return nil, nil, err
			}
			if len(cell) > scan.MaxLine {
				return nil, nil, scan.Fatal(c.errorf("quote opened on line %d is not closed within %d bytes", c.first, scan.MaxLine))
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

// readTokens reads the number of tokens in column i.
func (c *csvRows) readTokens(i int) int {
	if c.err != nil {
		return 0
	}
	name, cell := c.names[i], c.cells[i]
	n, ok := scan.WholeNumber(cell)
	if !ok {
		c.complain("%s is %q, must be an integer", name, excerpt.Cut(cell))
		return 0
	}
	if n > scan.MaxTokens {
		c.complain("%s is %d, must be at most %d", name, n, scan.MaxTokens)
		return 0
	}
	return int(n)
}

// readLengths reads the input and output lengths in columns i and i+1.
func (c *csvRows) readLengths(i int, r *formats.Record) {
	r.Input, r.Output = c.readTokens(i), c.readTokens(i+1)
}

// readSeconds reads the number of seconds in column i.
func (c *csvRows) readSeconds(i int) scan.Stamp {
	cell := c.cells[i]
	if s, ok := scan.DecimalStamp(cell, 9); ok && scan.IsNumeric(cell) {
		return s
	}
	c.complain("%s is %q, must be a finite number", c.names[i], excerpt.Cut(cell))
	return scan.Stamp{}
}

// readCalendar reads the time of a row in an Azure trace.
func (c *csvRows) readCalendar(r *formats.Record) {
	if c.err != nil {
		return
	}
	cell := c.cells[0]
	at, zoned, ok := scan.CalendarStamp(cell)
	if ok && !c.told {
		c.zoned, c.told = zoned, true
	}
	switch {
	case !ok:
		c.complain("TIMESTAMP is %q, must be a valid date and time", excerpt.Cut(cell))
	case zoned && !c.zoned:
		c.complain("TIMESTAMP is %q, which has a zone; the rows before had none, must have the same on all", excerpt.Cut(cell))
	case !zoned && c.zoned:
		c.complain("TIMESTAMP is %q, which has no zone; the rows before had one, must have the same on all", excerpt.Cut(cell))
	}
	r.Arrives(at)
}

// Detect returns the table with all required columns in the header. If no table has all required columns, Detect
// returns the table with the most columns in the header. The name of the table is empty if the header has no known
// column.
func Detect(s *formats.Stream, header []byte) (best table, names []string, err error) {
	c := &csvRows{s: s, comma: ','}
	names, err = c.splitHeader(bytes.TrimSuffix(header, []byte{'\r'}))
	most, width := 0, 0
	for _, t := range List() {
		columns, needed := t.listColumns()
		n, lacks := 0, false
		for i, column := range columns {
			has := slices.Contains(names, column)
			lacks = lacks || !has && i < needed
			if has {
				n++
			}
		}
		if !lacks {
			return t, names, err
		}
		if n > most || n == most && n > 0 && len(columns) < width {
			best, most, width = t, n, len(columns)
		}
	}
	return best, names, err
}
