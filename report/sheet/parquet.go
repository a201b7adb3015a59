package sheet

import (
	"io"
	"slices"

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
	for batch := range slices.Chunk(t.Rows, batchRows) {
		for i := range columns {
			c := out.Chunk(i)
			for _, row := range batch {
				switch v := row[i].(type) {
				case float64:
					c.AddDouble(v)
				case string:
					c.AddText(v)
				default:
					c.AddNull()
				}
			}
			if err := c.EndBatch(); err != nil {
				return err
			}
		}
	}
	return out.Close()
}
