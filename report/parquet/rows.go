package parquet

import (
	"fmt"
	"io"
	"os"
	"reflect"
)

// batchRows is the minimum number of rows in a page.
const batchRows = 64

// columnsOf returns the columns of a file with one row per struct of type T. Every field is a column with the name of
// its tag: a bool, an int32, a float64 or a list of int32.
func columnsOf[T any]() []Column {
	t := reflect.TypeFor[T]()
	kinds := map[reflect.Kind]Kind{reflect.Bool: Bool, reflect.Int32: Int32, reflect.Slice: Int32, reflect.Float64: Double}
	columns := make([]Column, t.NumField())
	for i := range columns {
		f := t.Field(i)
		columns[i] = Column{Name: f.Tag.Get("parquet"), Kind: kinds[f.Type.Kind()], List: f.Type.Kind() == reflect.Slice, Snappy: true}
	}
	return columns
}

// WriteRows writes a file of rows. The name of the schema is the name of their type.
func WriteRows[T any](out io.Writer, rows []T) error {
	w := NewWriter(out, columnsOf[T](), Options{Name: reflect.TypeFor[T]().Name(), Statistics: true})
	err := FillGroup(w, rows, batchRows, func(to *Chunk, column int, rows []T) {
		for i := range rows {
			switch v := reflect.ValueOf(&rows[i]).Elem().Field(column); v.Kind() {
			case reflect.Bool:
				to.AddBool(v.Bool())
			case reflect.Float64:
				to.AddDouble(v.Float())
			case reflect.Slice:
				to.AddList(*v.Addr().Interface().(*[]int32))
			default:
				to.AddInt(v.Int())
			}
		}
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// ReadRows reads a file that WriteRows has written.
func ReadRows[T any](path string) ([]T, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, err := Open(in)
	if err != nil {
		return nil, err
	}
	columns := columnsOf[T]()
	if len(f.Columns) != len(columns) {
		return nil, fmt.Errorf("%d columns, must be %d", len(f.Columns), len(columns))
	}
	var rows []T
	for group, n := range f.Groups() {
		first := len(rows)
		for i, want := range columns {
			if got := f.Columns[i]; got.Name != want.Name || got.Kind != want.Kind || got.List != want.List || got.Optional {
				return nil, fmt.Errorf("column %s of type %v, must be %s of type %v", got.Name, got.Kind, want.Name, want.Kind)
			}
			v, err := f.Read(group, i)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				rows = append(rows, make([]T, n)...) // one row per value
			}
			setField(rows[first:], i, v)
		}
	}
	return rows, nil
}

// setField sets a field of the rows.
func setField[T any](rows []T, field int, v *Values) {
	row, next := -1, 0
	for place := range v.Len() {
		if v.Further == nil || v.Further[place] == 0 {
			row++
		}
		if v.Defined != nil && v.Defined[place] == 0 {
			continue
		}
		switch to := reflect.ValueOf(&rows[row]).Elem().Field(field); to.Kind() {
		case reflect.Bool:
			to.SetBool(v.Bool(next))
		case reflect.Float64:
			to.SetFloat(v.Double(next))
		case reflect.Slice:
			list := to.Addr().Interface().(*[]int32)
			*list = append(*list, int32(v.Int(next)))
		default:
			to.SetInt(v.Int(next))
		}
		next++
	}
}
