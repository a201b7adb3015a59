package requests

import (
	"fmt"
	"io"
	"os"

	"github.com/replay-llm/replay/report/parquet"
)

// Sizes of a file: rows per row group, bytes per page, and the minimum number of rows per page (batch). Pages are
// small, since one page of each column is in memory.
const (
	groupRows = 1 << 17
	pageBytes = 1 << 15
	batch     = 1 << 9
)

// parquetColumns returns the columns in order. Integers are written as differences, which is small and fast. Times
// rarely repeat, so only columns of text or with the tag "repeats" are compressed.
func parquetColumns(columns []Column) []parquet.Column {
	all := make([]parquet.Column, len(columns))
	for i, c := range columns {
		all[i] = parquet.Column{
			Name: c.Name, Kind: c.Kind, Optional: !c.Required,
			Delta: c.Kind == parquet.Int64, Snappy: c.Kind == parquet.Text || c.repeats,
		}
	}
	return all
}

// parquetForm writes rows in row groups.
type parquetForm struct {
	out     *parquet.Writer
	columns []Column
	rows    int // in the group that is being filled
}

func newParquet(w io.Writer, columns []Column) *parquetForm {
	return &parquetForm{
		out:     parquet.NewWriter(w, parquetColumns(columns), parquet.Options{Name: "requests", PageBytes: pageBytes}),
		columns: columns,
	}
}

// addRows adds rows: only whole batches, except at the end.
func (f *parquetForm) addRows(rows []Row) error {
	for len(rows) > 0 {
		n := min(len(rows), groupRows-f.rows)
		err := parquet.FillGroup(f.out, rows[:n], batch, func(to *parquet.Chunk, column int, rows []Row) {
			f.columns[column].addValues(to, rows)
		})
		if err != nil {
			return err
		}
		if f.rows, rows = f.rows+n, rows[n:]; f.rows < groupRows {
			continue
		}
		if err := f.out.EndGroup(); err != nil {
			return err
		}
		f.rows = 0
	}
	return nil
}

func (f *parquetForm) close() error { return f.out.Close() }

// values gets the values of a column.
type values interface {
	AddNull()
	AddInt(n int64)
	AddDouble(x float64)
	AddText(s string)
	AddBool(b bool)
}

// addValues adds the values of the column in rows.
func (c *Column) addValues(to values, rows []Row) {
	for i := range rows {
		switch v := c.at(&rows[i]); {
		case !c.Required && !c.isKnown(v):
			to.AddNull()
		case c.Kind == parquet.Int64:
			to.AddInt(v.Int())
		case c.Kind == parquet.Double:
			to.AddDouble(v.Float())
		case c.Kind == parquet.Text:
			to.AddText(v.String())
		default:
			to.AddBool(v.Int() == int64(Met))
		}
	}
}

// readParquet reads a file that parquetForm has written.
func readParquet(in *os.File) ([]Row, error) {
	file, err := parquet.Open(in)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range file.Columns {
		names = append(names, c.Name)
	}
	byPlace, err := arrangeColumns(names)
	if err != nil {
		return nil, err
	}
	var rows []Row
	unknown := newRow()
	for group, n := range file.Groups() {
		first := len(rows)
		for i, c := range byPlace {
			if c == nil {
				continue
			}
			if got := file.Columns[i].Kind; got != c.Kind {
				return nil, fmt.Errorf("%s: is of type %v, must be %v", names[i], got, c.Kind)
			}
			values, err := file.Read(group, i)
			if err != nil {
				return nil, err
			}
			for len(rows) < first+n { // one row per value
				rows = append(rows, unknown)
			}
			c.setValues(rows[first:], values)
		}
	}
	return rows, nil
}

// setValues sets the values of a column in rows.
func (c *Column) setValues(rows []Row, v *parquet.Values) {
	next := 0
	for i := range rows {
		if v.Defined != nil && v.Defined[i] == 0 {
			continue
		}
		switch at := c.at(&rows[i]); c.Kind {
		case parquet.Int64:
			at.SetInt(v.Int(next))
		case parquet.Double:
			at.SetFloat(v.Double(next))
		case parquet.Text:
			at.SetString(v.Text(next))
		default:
			at.SetInt(int64(verdictOf(v.Bool(next))))
		}
		next++
	}
}
