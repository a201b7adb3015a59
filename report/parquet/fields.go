package parquet

import (
	"fmt"
	"io"
	"os"
	"slices"
)

// Field is a column of a file that holds structs, a row each.
type Field[T any] struct {
	Column
	add func(*Chunk, *T)
	set func(*Values, []T)
}

// BoolField is the column of the field that at returns.
func BoolField[T any](name string, at func(*T) *bool) Field[T] {
	return Field[T]{
		Column{Name: name, Kind: Bool, Snappy: true}, func(c *Chunk, row *T) { c.AddBool(*at(row)) },
		func(v *Values, rows []T) {
			for i := range rows {
				*at(&rows[i]) = v.Bools[i]
			}
		},
	}
}

// Int32Field is the column of the field that at returns.
func Int32Field[T any](name string, at func(*T) *int32) Field[T] {
	return Field[T]{
		Column{Name: name, Kind: Int32, Snappy: true}, func(c *Chunk, row *T) { c.AddInt(int64(*at(row))) },
		func(v *Values, rows []T) {
			for i := range rows {
				*at(&rows[i]) = int32(v.Ints[i])
			}
		},
	}
}

// DoubleField is the column of the field that at returns.
func DoubleField[T any](name string, at func(*T) *float64) Field[T] {
	return Field[T]{
		Column{Name: name, Kind: Double, Snappy: true}, func(c *Chunk, row *T) { c.AddDouble(*at(row)) },
		func(v *Values, rows []T) {
			for i := range rows {
				*at(&rows[i]) = v.Doubles[i]
			}
		},
	}
}

// ListField is the column of the field that at returns.
func ListField[T any](name string, at func(*T) *[]int32) Field[T] {
	return Field[T]{
		Column{Name: name, Kind: Int32, List: true, Snappy: true}, func(c *Chunk, row *T) { c.AddList(*at(row)) },
		func(v *Values, rows []T) {
			row, next := -1, 0
			for i, further := range v.Further {
				if further == 0 {
					row++
				}
				if v.Defined[i] == 1 {
					list := at(&rows[row])
					*list = append(*list, int32(v.Ints[next]))
					next++
				}
			}
		},
	}
}

// batchRows is how many rows are in one page at least.
const batchRows = 64

// WriteRows writes a file of rows; name is that of its schema.
func WriteRows[T any](out io.Writer, name string, fields []Field[T], rows []T) error {
	columns := make([]Column, len(fields))
	for i := range fields {
		columns[i] = fields[i].Column
	}
	w := NewWriter(out, columns, Options{Name: name, Statistics: true})
	for batch := range slices.Chunk(rows, batchRows) {
		for i := range fields {
			c := w.Chunk(i)
			for j := range batch {
				fields[i].add(c, &batch[j])
			}
			if err := c.EndBatch(); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// ReadRows reads what WriteRows wrote to the file at path.
func ReadRows[T any](path string, fields []Field[T]) ([]T, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	stat, err := in.Stat()
	if err != nil {
		return nil, err
	}
	f, err := Open(in, stat.Size())
	if err != nil {
		return nil, err
	}
	if len(f.Columns) != len(fields) {
		return nil, fmt.Errorf("%d columns, want %d", len(f.Columns), len(fields))
	}
	var rows []T
	for group, n := range f.Groups() {
		first := len(rows)
		for i := range fields {
			if got, want := f.Columns[i], fields[i].Column; got.Name != want.Name || got.Kind != want.Kind || got.List != want.List || got.Optional {
				return nil, fmt.Errorf("column %s of type %v, want %s of type %v", got.Name, got.Kind, want.Name, want.Kind)
			}
			v, err := f.Read(group, i)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				rows = append(rows, make([]T, n)...) // as many as there are values
			}
			fields[i].set(v, rows[first:])
		}
	}
	return rows, nil
}
