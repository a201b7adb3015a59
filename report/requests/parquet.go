package requests

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/replay-llm/replay/report/parquet"
)

// A file has a group for every so many rows, and its columns have pages of so
// many bytes: small ones, since all columns of a group have one in memory. batch
// is how many rows are in one page at least.
const (
	groupRows = 1 << 17
	pageBytes = 1 << 15
	batch     = 1 << 9
)

// parquetColumns returns the columns in their order. Whole numbers are written as
// differences, which is small and costs little. Times are hardly ever the same,
// and compressing them is a waste of it, but for those columns that say so.
func parquetColumns(columns []Column) []parquet.Column {
	all := make([]parquet.Column, len(columns))
	for i, c := range columns {
		all[i] = parquet.Column{
			Name: c.Name, Kind: c.Kind.parquet(), Optional: !c.Required,
			Delta: c.Kind == Int, Snappy: c.Kind == Text || c.Kind != Int && c.repeats,
		}
	}
	return all
}

// parquet returns the type of the column in a Parquet file.
func (k Kind) parquet() parquet.Kind {
	return map[Kind]parquet.Kind{Int: parquet.Int64, Float: parquet.Double, Text: parquet.Text, Bool: parquet.Bool}[k]
}

// writeParquet writes rows in groups.
func writeParquet(w io.Writer, rows []Row) error {
	columns := Columns()
	out := parquet.NewWriter(w, parquetColumns(columns), parquet.Options{Name: "requests", PageBytes: pageBytes})
	for group := range slices.Chunk(rows, groupRows) {
		if err := fillGroup(out, columns, group); err != nil {
			return err
		}
		if err := out.EndGroup(); err != nil {
			return err
		}
	}
	return out.Close()
}

// fillGroup adds rows column by column, some columns at once. The file does not
// depend on how many.
func fillGroup(out *parquet.Writer, columns []Column, rows []Row) error {
	var filled errgroup.Group
	atOnce := min(runtime.GOMAXPROCS(0), len(columns))
	for first := range atOnce {
		filled.Go(func() error {
			for part := range slices.Chunk(rows, batch) { // few rows, so that they stay near
				for i := first; i < len(columns); i += atOnce {
					columns[i].addValues(out.Chunk(i), part)
					if err := out.Chunk(i).EndBatch(); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return filled.Wait()
}

// addValues adds what the column has of rows.
func (c *Column) addValues(to *parquet.Chunk, rows []Row) {
	for i := range rows {
		r := &rows[i]
		switch c.Kind {
		case Int:
			if v, ok := c.Int(r); ok {
				to.AddInt(v)
				continue
			}
		case Float:
			if v := *c.time(r); v.Known() || c.Required {
				to.AddDouble(float64(v))
				continue
			}
		case Text:
			if v, ok := c.Text(r); ok {
				to.AddText(v)
				continue
			}
		case Bool:
			if v, ok := c.Bool(r); ok {
				to.AddBool(v)
				continue
			}
		}
		to.AddNull()
	}
}

// readParquet reads what writeParquet writes.
func readParquet(in *os.File) ([]Row, error) {
	stat, err := in.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.Open(in, stat.Size())
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
	for group, n := range file.Groups() {
		first := len(rows)
		for i, c := range byPlace {
			if c == nil {
				continue
			}
			if got := file.Columns[i].Kind; got != c.Kind.parquet() {
				return nil, fmt.Errorf("%s: is of type %v, want %v", names[i], got, c.Kind.parquet())
			}
			values, err := file.Read(group, i)
			if err != nil {
				return nil, err
			}
			for len(rows) < first+n { // as many as there are values
				rows = append(rows, newRow())
			}
			c.setValues(rows[first:], values)
		}
	}
	return rows, nil
}

// setValues puts the values of a column into rows.
func (c *Column) setValues(rows []Row, v *parquet.Values) {
	next := 0
	for i := range rows {
		if v.Defined != nil && v.Defined[i] == 0 {
			continue
		}
		switch c.Kind {
		case Int:
			c.setInt(&rows[i], v.Ints[next])
		case Float:
			c.setFloat(&rows[i], v.Doubles[next])
		case Text:
			c.setText(&rows[i], v.Texts[next])
		case Bool:
			c.setBool(&rows[i], v.Bools[next])
		}
		next++
	}
}
