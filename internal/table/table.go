// Package table represents all tables that the programs print or write. Text for terminals is in text.go, and
// Markdown, CSV and JSON are in this file. report/parquet writes tables as Parquet files, and report/html displays
// tables on pages.
package table

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// Table has columns, and rows with one cell per column.
type Table struct {
	Columns []Column `json:"columns"`
	// Rows have one cell per column. A cell is a float64 or a Number in columns of numbers, a string in other
	// columns, and nil if it is empty.
	Rows [][]any `json:"rows"`
	// Flush omits the gap in front of the first column of text.
	Flush bool `json:"-"`
}

// Column is a column of a table.
type Column struct {
	Name   string `json:"name"`
	Number bool   `json:"number"`
	// Setting reports whether the values are settings and not measurements.
	Setting bool `json:"setting"`
	// Above is the first line of a heading with two lines. Name is the second line.
	Above string `json:"-"`
	Left  bool   `json:"-"` // aligned left
	// Rank is the priority with which Fit removes the column: highest first, 0 never.
	Rank int `json:"-"`
}

// New returns a table with columns and no rows. A name may have two lines.
func New(names ...string) *Table {
	t := &Table{}
	t.AddColumns(names...)
	return t
}

// NewLeft returns a table with left-aligned columns and no rows.
func NewLeft(names ...string) *Table {
	t := New(names...)
	for i := range t.Columns {
		t.Columns[i].Left = true
	}
	return t
}

// AddColumns adds columns of text. A name may have two lines.
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

// Add adds a row of texts. "" is an empty cell.
func (t *Table) Add(texts ...string) {
	row := make([]any, len(texts))
	for i, text := range texts {
		if text != "" {
			row[i] = text
		}
	}
	t.Rows = append(t.Rows, row)
}

// Number is a number as text.
type Number string

// MarshalJSON returns the number in the JSON format of a float64.
func (n Number) MarshalJSON() ([]byte, error) {
	v, _ := Float(n)
	return json.Marshal(v)
}

// Float returns the number in a cell. Float reports false if the cell contains no number.
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

// FindNumbers converts a column of texts to a column of numbers if all cells contain numbers.
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

// lines returns the column names and all cells as texts.
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

// WriteCSV writes a line with the names of the columns and a line per row.
func (t *Table) WriteCSV(w io.Writer) error { return csv.NewWriter(w).WriteAll(t.lines()) }

// Escape returns text with escapes for a cell of a Markdown table.
func Escape(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

// Markdown returns the table in Markdown.
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

// WriteJSON writes a list with one object per line and row. Empty cells are omitted.
func (t *Table) WriteJSON(w io.Writer) error {
	objects := make([]string, len(t.Rows))
	for n, row := range t.Rows {
		object := map[string]any{}
		for i, v := range row {
			if v != nil {
				object[t.Columns[i].Name] = v
			}
		}
		line, err := json.Marshal(object) // keys are in bytewise order
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

// Clone returns a copy to which rows can be added.
func (t *Table) Clone() *Table {
	return &Table{Columns: t.Columns, Rows: append([][]any{}, t.Rows...), Flush: t.Flush}
}
