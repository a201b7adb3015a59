// Package sheet writes tables whose columns are not known before: what the cells
// of a sweep or the replays of a plan came to.
//
// report/html draws a table on a page.
package sheet

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/report/parquet"
)

// Table is columns and rows of values.
type Table struct {
	Columns []Column `json:"columns"`
	// Rows have a value per column: a float64 in columns of numbers, a string in
	// all others, nil where there is none.
	Rows [][]any `json:"rows"`
}

// Column is one of a table.
type Column struct {
	Name   string `json:"name"`
	Number bool   `json:"number"`
	// Setting reports whether it was chosen and not measured.
	Setting bool `json:"setting"`
}

// Value is text as a column has it: a number where that is wanted and it is
// one, nil for "".
func (c *Column) Value(text string) any {
	if text == "" {
		return nil
	}
	if !c.Number {
		return text
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return x
	}
	return nil
}

// WriteCSV writes a line per row, after one with the names.
func (t *Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	line := make([]string, len(t.Columns))
	for i := range t.Columns {
		line[i] = t.Columns[i].Name
	}
	if err := c.Write(line); err != nil {
		return err
	}
	for _, row := range t.Rows {
		for i, v := range row {
			line[i] = cellText(v)
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// cellText is a value in a cell of CSV.
func cellText(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return v
	}
	return ""
}

// WriteJSON writes a list of objects, one per line, without what is nil.
func (t *Table) WriteJSON(w io.Writer) error {
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
		start := ",\n"
		if n == 0 {
			start = "[\n"
		}
		if _, err := io.WriteString(w, start+string(line)); err != nil {
			return err
		}
	}
	end := "\n]\n"
	if len(t.Rows) == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// batchRows is how many rows are in one page at least.
const batchRows = 64

// WriteParquet writes the table with its columns in their order, all of which
// may be null.
func (t *Table) WriteParquet(w io.Writer) error {
	columns := make([]parquet.Column, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = parquet.Column{Name: c.Name, Kind: parquet.Text, Optional: true, Snappy: true}
		if c.Number {
			columns[i].Kind = parquet.Double
		}
	}
	out := parquet.NewWriter(w, columns, parquet.Options{Name: "cells", Statistics: true})
	err := parquet.FillGroup(out, t.Rows, batchRows, func(to *parquet.Chunk, column int, rows [][]any) {
		for _, row := range rows {
			switch v := row[column].(type) {
			case float64:
				to.AddDouble(v)
			case string:
				to.AddText(v)
			default:
				to.AddNull()
			}
		}
	})
	if err != nil {
		return err
	}
	return out.Close()
}
