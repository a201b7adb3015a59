package requests

import (
	"io"

	"github.com/replay-llm/replay/report/arrow"
	"github.com/replay-llm/replay/report/parquet"
)

// arrowForm writes rows in the batches of a stream.
type arrowForm struct {
	out     *arrow.Writer
	columns []Column
	rows    int // in the batch that is being filled
}

func newArrow(w io.Writer, columns []Column) *arrowForm {
	kinds := map[parquet.Kind]arrow.Kind{parquet.Int64: arrow.Int64, parquet.Double: arrow.Double, parquet.Text: arrow.Text, parquet.Bool: arrow.Bool}
	all := make([]*arrow.Column, len(columns))
	for i, c := range columns {
		all[i] = &arrow.Column{Name: c.Name, Kind: kinds[c.Kind], Optional: !c.Required}
	}
	return &arrowForm{out: arrow.NewWriter(w, all), columns: columns}
}

func (f *arrowForm) addRows(rows []Row) error {
	for len(rows) > 0 {
		n := min(len(rows), groupRows-f.rows)
		for i := range f.columns {
			f.columns[i].addValues(f.out.Columns[i], rows[:n])
		}
		if f.rows, rows = f.rows+n, rows[n:]; f.rows < groupRows {
			continue
		}
		if err := f.out.EndBatch(); err != nil {
			return err
		}
		f.rows = 0
	}
	return nil
}

func (f *arrowForm) close() error { return f.out.Close() }
