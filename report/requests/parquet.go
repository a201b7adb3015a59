package requests

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"
)

// A file has a group for every so many rows, and its columns have pages of so
// many bytes: small ones, since all columns of a group have one in memory. batch
// is how many values are converted at once.
const (
	groupRows = 1 << 17
	pageBytes = 1 << 15
	batch     = 1 << 9
)

// newSchema has the columns in their order; parquet.Group would sort them. Whole
// numbers are written as differences, which is small and costs little. Times are
// hardly ever the same, and compressing them is a waste of it, but for those
// columns that say so. Columns of numbers take them from the queues.
func newSchema(columns []Column, queues []queue) *parquet.Schema {
	types := map[Kind]reflect.Type{
		Int: reflect.TypeFor[int64](), Float: reflect.TypeFor[float64](),
		Text: reflect.TypeFor[string](), Bool: reflect.TypeFor[bool](),
	}
	fields := make([]reflect.StructField, len(columns))
	for i, c := range columns {
		tag := c.Name
		switch {
		case c.Kind == Int:
			tag += ",delta"
		case c.Kind == Text || c.repeats:
			tag += ",snappy"
		}
		if !c.Required {
			tag += ",optional"
		}
		fields[i] = reflect.StructField{
			Name: fmt.Sprintf("F%d", i), Type: types[c.Kind], Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", tag)),
		}
	}
	model := reflect.New(reflect.StructOf(fields)).Elem().Interface()
	return parquet.NewSchema("requests", queueColumns(parquet.SchemaOf(model), columns, queues))
}

// writeParquet writes rows in groups.
func writeParquet(w io.Writer, rows []Row) error {
	columns := Columns()
	queues := make([]queue, len(columns))
	out := parquet.NewGenericWriter[any](w, newSchema(columns, queues),
		parquet.DataPageStatistics(false), parquet.PageBufferSize(pageBytes), parquet.CreatedBy("replay", "1", "parquet-go"))
	for len(rows) > 0 {
		n := min(groupRows, len(rows))
		group := out.BeginRowGroup()
		if err := fillGroup(group, columns, queues, rows[:n]); err != nil {
			return err
		}
		if _, err := group.Commit(); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return out.Close()
}

// fillGroup writes rows column by column, some columns at once. The file does
// not depend on how many.
func fillGroup(group *parquet.ConcurrentRowGroupWriter, columns []Column, queues []queue, rows []Row) error {
	var filled errgroup.Group
	writers := group.ColumnWriters()
	atOnce := min(runtime.GOMAXPROCS(0), len(columns))
	for first := range atOnce {
		filled.Go(func() error {
			f := newFiller()
			for from := 0; from < len(rows); from += batch { // few rows, so that they stay near
				part := rows[from:min(from+batch, len(rows))]
				for i := first; i < len(columns); i += atOnce {
					if _, err := writers[i].WriteRowValues(f.fillValues(&columns[i], &queues[i], part)); err != nil {
						return err
					}
				}
			}
			for i := first; i < len(columns); i += atOnce {
				if err := writers[i].Flush(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := filled.Wait(); err != nil {
		return err
	}
	return group.Flush()
}

// readParquet reads what writeParquet writes.
func readParquet(in *os.File) ([]Row, error) {
	stat, err := in.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(in, stat.Size())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range file.Schema().Columns() {
		names = append(names, path[0])
	}
	byPlace, err := arrangeColumns(names)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, file.NumRows())
	for i := range rows {
		rows[i] = newRow()
	}
	first := 0
	for _, group := range file.RowGroups() {
		inside := rows[first : first+int(group.NumRows())]
		for i, chunk := range group.ColumnChunks() {
			if byPlace[i] == nil {
				continue
			}
			if err := readChunk(chunk, byPlace[i], inside); err != nil {
				return nil, fmt.Errorf("%s: %w", names[i], err)
			}
		}
		first += len(inside)
	}
	return rows, nil
}

// readChunk puts the values of a column chunk into rows.
func readChunk(chunk parquet.ColumnChunk, c *Column, rows []Row) error {
	want := map[Kind]parquet.Kind{Int: parquet.Int64, Float: parquet.Double, Text: parquet.ByteArray, Bool: parquet.Boolean}[c.Kind]
	if got := chunk.Type().Kind(); got != want {
		return fmt.Errorf("is of type %v, want %v", got, want)
	}
	pages := chunk.Pages()
	defer pages.Close()
	var values [batch]parquet.Value
	at := 0
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for in := page.Values(); ; {
			n, err := in.ReadValues(values[:])
			if at+n > len(rows) {
				return fmt.Errorf("more than %d values", len(rows))
			}
			for i := range n {
				c.takeValue(&rows[at+i], &values[i])
			}
			at += n
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
		}
		parquet.Release(page)
	}
}

func (c *Column) takeValue(r *Row, v *parquet.Value) {
	if v.IsNull() {
		return
	}
	switch c.Kind {
	case Int:
		c.setInt(r, v.Int64())
	case Float:
		c.setFloat(r, v.Double())
	case Text:
		c.setText(r, string(v.ByteArray()))
	case Bool:
		c.setBool(r, v.Boolean())
	}
}
