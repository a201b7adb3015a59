package sheet

import (
	"io"

	"github.com/replay-llm/replay/report/parquet"
)

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
