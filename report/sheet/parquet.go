package sheet

import (
	"fmt"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// batchRows is how many rows are handed to the library at once.
const batchRows = 1024

// WriteParquet writes the table with its columns in their order, all of which
// may be null.
func (t *Table) WriteParquet(w io.Writer) error {
	fields := make([]reflect.StructField, len(t.Columns))
	for i, c := range t.Columns {
		kind := reflect.TypeFor[string]()
		if c.Number {
			kind = reflect.TypeFor[float64]()
		}
		fields[i] = reflect.StructField{
			Name: fmt.Sprintf("F%d", i), Type: kind, Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", c.Name+",optional,snappy")),
		}
	}
	model := reflect.New(reflect.StructOf(fields)).Elem().Interface()
	out := parquet.NewGenericWriter[any](w, parquet.NewSchema("cells", parquet.SchemaOf(model)), parquet.CreatedBy("replay", "1", "parquet-go"))
	var batch []parquet.Row
	for i, row := range t.Rows {
		batch = append(batch, parquetRow(row))
		if len(batch) == batchRows || i == len(t.Rows)-1 {
			if _, err := out.WriteRows(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return out.Close()
}

func parquetRow(row []any) parquet.Row {
	out := make(parquet.Row, len(row))
	for i, v := range row {
		if v == nil {
			out[i] = parquet.NullValue().Level(0, 0, i)
			continue
		}
		out[i] = parquet.ValueOf(v).Level(0, 1, i)
	}
	return out
}
