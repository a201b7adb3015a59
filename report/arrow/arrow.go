// Package arrow writes tables of flat columns as streams of Arrow IPC.
//
// Read arrow.go, then flat.go, which encodes the metadata.
package arrow

import (
	"encoding/binary"
	"io"
	"math"
)

// Kind is the type of a column's values: its number in Arrow's Schema.fbs.
type Kind byte

const (
	Int64  Kind = 2
	Double Kind = 3
	Text   Kind = 5
	Bool   Kind = 6
)

// Column collects the values of a column.
type Column struct {
	Name     string
	Kind     Kind
	Optional bool // a row may have no value

	n, nulls int
	valid    []byte // a bit for each row
	data     []byte
	offsets  []byte // of texts: the end of each in data
}

// AddNull adds a row without a value.
func (c *Column) AddNull() {
	c.nulls++
	switch c.Kind {
	case Int64, Double:
		c.data = append(c.data, make([]byte, 8)...)
	case Text:
		c.endText()
	default:
		c.data = appendBit(c.data, c.n, false)
	}
	c.addRow(false)
}

// AddInt adds a row to a column of integers.
func (c *Column) AddInt(n int64) {
	c.data = binary.LittleEndian.AppendUint64(c.data, uint64(n))
	c.addRow(true)
}

// AddDouble adds a row to a column of floating-point numbers.
func (c *Column) AddDouble(x float64) { c.AddInt(int64(math.Float64bits(x))) }

// AddText adds a row to a column of strings.
func (c *Column) AddText(s string) {
	c.data = append(c.data, s...)
	c.endText()
	c.addRow(true)
}

// AddBool adds a row to a column of booleans.
func (c *Column) AddBool(b bool) {
	c.data = appendBit(c.data, c.n, b)
	c.addRow(true)
}

func (c *Column) endText() {
	c.offsets = binary.LittleEndian.AppendUint32(c.offsets, uint32(len(c.data)))
}

func (c *Column) addRow(valid bool) {
	c.valid = appendBit(c.valid, c.n, valid)
	c.n++
}

// appendBit appends bit n to bits.
func appendBit(bits []byte, n int, set bool) []byte {
	if n%8 == 0 {
		bits = append(bits, 0)
	}
	if set {
		bits[n/8] |= 1 << (n % 8)
	}
	return bits
}

// buffers returns the buffers of a batch in the order of Arrow: the validity bits, the offsets of strings, the
// values.
func (c *Column) buffers() [][]byte {
	var all [][]byte
	if c.nulls == 0 {
		all = append(all, nil)
	} else {
		all = append(all, c.valid)
	}
	if c.Kind == Text {
		all = append(all, append(make([]byte, 4), c.offsets...))
	}
	return append(all, c.data)
}

// reset removes all rows.
func (c *Column) reset() {
	c.n, c.nulls, c.valid, c.data, c.offsets = 0, 0, c.valid[:0], c.data[:0], c.offsets[:0]
}

// Writer writes batches of rows.
type Writer struct {
	Columns []*Column // each gets a value for every row

	out   io.Writer
	began bool
}

// NewWriter returns a writer of a stream.
func NewWriter(w io.Writer, columns []*Column) *Writer { return &Writer{Columns: columns, out: w} }

// EndBatch writes the rows that were added since the last batch.
func (w *Writer) EndBatch() error {
	if !w.began {
		w.began = true
		if err := w.message(schemaOf(w.Columns), nil); err != nil {
			return err
		}
	}
	if len(w.Columns) == 0 || w.Columns[0].n == 0 {
		return nil
	}
	var nodes, places, body []byte
	for _, c := range w.Columns {
		nodes = binary.LittleEndian.AppendUint64(nodes, uint64(c.n))
		nodes = binary.LittleEndian.AppendUint64(nodes, uint64(c.nulls))
		for _, b := range c.buffers() {
			places = binary.LittleEndian.AppendUint64(places, uint64(len(body)))
			places = binary.LittleEndian.AppendUint64(places, uint64(len(b)))
			body = append(body, b...)
			body = append(body, make([]byte, -len(body)&7)...)
		}
	}
	err := w.message(batchOf(w.Columns[0].n, nodes, places, len(body)), body)
	for _, c := range w.Columns {
		c.reset()
	}
	return err
}

// Close ends the stream.
func (w *Writer) Close() error {
	if err := w.EndBatch(); err != nil {
		return err
	}
	return w.message(nil, nil) // the end of the stream
}

// message writes metadata and the body that it describes.
func (w *Writer) message(metadata, body []byte) error {
	metadata = append(metadata, make([]byte, -len(metadata)&7)...)
	head := binary.LittleEndian.AppendUint32([]byte{0xff, 0xff, 0xff, 0xff}, uint32(len(metadata)))
	for _, part := range [][]byte{head, metadata, body} {
		if _, err := w.out.Write(part); err != nil {
			return err
		}
	}
	return nil
}
