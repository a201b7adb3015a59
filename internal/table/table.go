// Package table holds columns and rows of cells: all tables that programs print or write are one. Each form has one
// renderer: text.go (lines of a terminal), and in this file Markdown, CSV and JSON. report/parquet writes files of
// columns, and report/html draws a table on a page.
package table

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// Table is columns and rows of cells.
type Table struct {
	Columns []Column `json:"columns"`
	// Rows have a cell per column: a float64 or a Number in columns of numbers, a string in all other columns, nil for an
	// empty one.
	Rows [][]any `json:"rows"`
	// Flush omits the gap in front of the first column of text.
	Flush bool `json:"-"`
}

// Column is a column of a table.
type Column struct {
	Name   string `json:"name"`
	Number bool   `json:"number"`
	// Setting reports whether it was chosen and not measured.
	Setting bool `json:"setting"`
	// Above is the first of two lines of a heading, of which Name is the second.
	Above string `json:"-"`
	Left  bool   `json:"-"` // aligned
	// Rank orders what Fit removes: the highest first, 0 never.
	Rank int `json:"-"`
}

// New returns a table without rows. A name may have two lines.
func New(names ...string) *Table {
	t := &Table{}
	t.AddColumns(names...)
	return t
}

// NewLeft returns a table without rows, the columns of which are aligned left.
func NewLeft(names ...string) *Table {
	t := New(names...)
	for i := range t.Columns {
		t.Columns[i].Left = true
	}
	return t
}

// AddColumns adds columns. A name may have two lines.
func (t *Table) AddColumns(names ...string) {
	for _, name := range names {
		above, last, two := strings.Cut(name, "\n")
		if !two {
			above, last = "", name
		}
		t.Columns = append(t.Columns, Column{Above: above, Name: last})
	}
}

// AddNumbers adds columns of numbers.
func (t *Table) AddNumbers(setting bool, names ...string) {
	for _, name := range names {
		t.Columns = append(t.Columns, Column{Name: name, Number: true, Setting: setting})
	}
}

// Add adds a row of texts, "" for empty cells.
func (t *Table) Add(texts ...string) {
	row := make([]any, len(texts))
	for i, text := range texts {
		if text != "" {
			row[i] = text
		}
	}
	t.Rows = append(t.Rows, row)
}

// Number is a number that keeps its text.
type Number string

// MarshalJSON returns the number as a float64 is written.
func (n Number) MarshalJSON() ([]byte, error) {
	v, _ := Float(n)
	return json.Marshal(v)
}

// Float returns the number in a cell, and false without one.
func Float(cell any) (float64, bool) {
	switch v := cell.(type) {
	case float64:
		return v, true
	case Number:
		n, err := strconv.ParseFloat(string(v), 64)
		return n, err == nil
	}
	return 0, false
}

// FindNumbers makes a column of texts one of numbers, if all of them are.
func (t *Table) FindNumbers(column int) {
	for _, row := range t.Rows {
		if _, ok := Float(Number(formatCell(row[column]))); row[column] != nil && !ok {
			return
		}
	}
	t.Columns[column].Number = true
	for _, row := range t.Rows {
		if row[column] != nil {
			row[column] = Number(formatCell(row[column]))
		}
	}
}

// formatCell returns the text of a cell.
func formatCell(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return v
	case Number:
		return string(v)
	}
	return ""
}

// lines returns the names and the cells as texts.
func (t *Table) lines() [][]string {
	all := make([][]string, 1, 1+len(t.Rows))
	for i := range t.Columns {
		all[0] = append(all[0], t.Columns[i].Name)
	}
	for _, row := range t.Rows {
		line := make([]string, len(row))
		for i, v := range row {
			line[i] = formatCell(v)
		}
		all = append(all, line)
	}
	return all
}

// WriteCSV writes a line per row, after one with the names.
func (t *Table) WriteCSV(w io.Writer) error { return csv.NewWriter(w).WriteAll(t.lines()) }

// Escape returns text as a cell of Markdown has it.
func Escape(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

// Markdown returns a table of Markdown.
func (t *Table) Markdown() string {
	var b strings.Builder
	for i, line := range t.lines() {
		for _, cell := range line {
			if cell = Escape(cell); i == 0 && cell == "" {
				b.WriteString("| ")
				continue
			}
			b.WriteString("| " + cell + " ")
		}
		if b.WriteString("|\n"); i > 0 {
			continue
		}
		for k := range t.Columns {
			b.WriteString(map[bool]string{true: "| --- ", false: "| ---: "}[t.Columns[k].Left])
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// WriteJSON writes a list of objects, one per line, without empty cells.
func (t *Table) WriteJSON(w io.Writer) error {
	objects := make([]string, len(t.Rows))
	for n, row := range t.Rows {
		object := map[string]any{}
		for i, v := range row {
			if v != nil {
				object[t.Columns[i].Name] = v
			}
		}
		line, err := json.Marshal(object) // keys in bytewise order
		if err != nil {
			return err
		}
		objects[n] = "\n" + string(line)
	}
	if len(objects) > 0 {
		objects[len(objects)-1] += "\n"
	}
	_, err := io.WriteString(w, "["+strings.Join(objects, ",")+"]\n")
	return err
}

// Clone returns a copy, the rows of which may be added to.
func (t *Table) Clone() *Table {
	return &Table{Columns: t.Columns, Rows: append([][]any{}, t.Rows...), Flush: t.Flush}
}
