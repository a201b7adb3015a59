package parquet

import (
	"io"

	"github.com/replay-llm/replay/internal/table"
)

// WriteTable writes a table with its columns in order. All columns may contain nulls.
func WriteTable(w io.Writer, t *table.Table) error {
	columns := make([]Column, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = Column{Name: c.Name, Kind: Text, Optional: true, Snappy: true}
		if c.Number {
			columns[i].Kind = Double
		}
	}
	out := NewWriter(w, columns, Options{Name: "cells", Statistics: true})
	err := FillGroup(out, t.Rows, batchRows, func(to *Chunk, column int, rows [][]any) {
		for _, row := range rows {
			if v, ok := table.Float(row[column]); ok {
				to.AddDouble(v)
			} else if text, ok := row[column].(string); ok {
				to.AddText(text)
			} else {
				to.AddNull()
			}
		}
	})
	if err != nil {
		return err
	}
	return out.Close()
}
