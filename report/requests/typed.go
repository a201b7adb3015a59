package requests

import (
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// A parquet.Value costs more to make than the number in it costs to write, and
// a file is mostly numbers. So a column of numbers has a queue of them, and what
// goes through parquet.ColumnWriter marks only which rows have one: the column's
// buffer takes as many from the queue.

// queue holds numbers that have not been written, of one kind.
type queue struct {
	ints   []int64
	floats []float64
}

// filler makes values of rows, a batch at a time.
type filler struct {
	levels []parquet.Value // without values
	texts  []parquet.Value
	ints   []int64
	floats []float64
	bytes  []byte // of the texts
}

func newFiller() *filler {
	return &filler{
		levels: make([]parquet.Value, batch), texts: make([]parquet.Value, batch),
		ints: make([]int64, 0, batch), floats: make([]float64, 0, batch),
	}
}

// fillValues returns what the column has of rows, up to batch of them. Its numbers
// are in the queue. All are valid until the next call.
func (f *filler) fillValues(c *Column, q *queue, rows []Row) []parquet.Value {
	switch c.Kind {
	case Int:
		q.ints = f.ints[:0]
		for i := range rows {
			v, ok := c.Int(&rows[i])
			if ok {
				q.ints = append(q.ints, v)
			}
			f.setKnown(i, ok)
		}
	case Float:
		q.floats = f.floats[:0]
		for i := range rows {
			v := *c.time(&rows[i])
			ok := v.Known() || c.Required
			if ok {
				q.floats = append(q.floats, float64(v))
			}
			f.setKnown(i, ok)
		}
	case Text:
		return f.textOf(c, rows)
	case Bool:
		for i := range rows {
			f.texts[i] = parquet.NullValue()
			if v, ok := c.Bool(&rows[i]); ok {
				f.texts[i] = parquet.BooleanValue(v).Level(0, 1, 0)
			}
		}
		return f.texts[:len(rows)]
	}
	return f.levels[:len(rows)]
}

// setKnown notes whether the i-th row has a value.
func (f *filler) setKnown(i int, known bool) {
	if known {
		f.levels[i].SetDefinitionLevel(1)
	} else {
		f.levels[i].SetDefinitionLevel(0)
	}
}

func (f *filler) textOf(c *Column, rows []Row) []parquet.Value {
	f.bytes = f.bytes[:0]
	for i := range rows {
		f.texts[i] = parquet.NullValue()
		if v, ok := c.Text(&rows[i]); ok {
			start := len(f.bytes)
			f.bytes = append(f.bytes, v...) // the values before keep what they have when it moves
			f.texts[i] = parquet.ByteArrayValue(f.bytes[start:])
			f.texts[i].SetDefinitionLevel(1)
		}
	}
	return f.texts[:len(rows)]
}

// record is a schema's root, with columns of its own.
type record struct {
	parquet.Node
	columns []parquet.Field
}

func (r *record) Fields() []parquet.Field { return r.columns }

// queueColumns makes the columns of root take numbers from queues, in the order of
// columns.
func queueColumns(root parquet.Node, columns []Column, queues []queue) parquet.Node {
	fields := append([]parquet.Field(nil), root.Fields()...)
	for i := range columns {
		if columns[i].isNumeric() {
			fields[i] = &queuedField{fields[i], &queues[i]}
		}
	}
	return &record{root, fields}
}

func (c *Column) isNumeric() bool { return c.Kind == Int || c.Kind == Float }

type queuedField struct {
	parquet.Field
	from *queue
}

func (f *queuedField) Type() parquet.Type { return &queuedType{f.Field.Type(), f.from} }

type queuedType struct {
	parquet.Type
	from *queue
}

func (t *queuedType) NewColumnBuffer(column, values int) parquet.ColumnBuffer {
	return &queuedBuffer{t.Type.NewColumnBuffer(column, values), t.from}
}

// queuedBuffer is a column buffer of a queuedType.
type queuedBuffer struct {
	parquet.ColumnBuffer
	from *queue
}

// WriteValues writes as many numbers of the queue as there are values. What the
// values are does not matter.
func (b *queuedBuffer) WriteValues(values []parquet.Value) (int, error) {
	n := len(values)
	switch to := b.ColumnBuffer.(type) {
	case interface{ WriteDoubles([]float64) (int, error) }:
		var numbers []float64
		numbers, b.from.floats = b.from.floats[:n], b.from.floats[n:]
		return to.WriteDoubles(numbers)
	case interface{ WriteInt64s([]int64) (int, error) }:
		var numbers []int64
		numbers, b.from.ints = b.from.ints[:n], b.from.ints[n:]
		return to.WriteInt64s(numbers)
	}
	return 0, fmt.Errorf("column %d takes no numbers", b.Column())
}
