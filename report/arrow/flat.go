package arrow

import "encoding/binary"

// flat is a Flatbuffers message that is written from front to back: a table precedes the objects that it references.
type flat struct{ text []byte }

// value is a field of a table: a number of width bytes, or a reference (width 0) that point sets later.
type value struct {
	slot, width int
	n           uint64
}

func (f *flat) align(n int) {
	for len(f.text)%n != 0 {
		f.text = append(f.text, 0)
	}
}

// table appends a table. table returns the offset of the table and the offsets of its references.
func (f *flat) table(values ...value) (at int, references []int) {
	slots := 0
	for _, v := range values {
		slots = max(slots, v.slot+1)
	}
	f.align(2)
	index := len(f.text)
	f.text = append(f.text, make([]byte, 4+2*slots)...)
	f.align(8)
	at = len(f.text)
	f.text = binary.LittleEndian.AppendUint32(f.text, uint32(at-index))
	for _, v := range values {
		width := v.width
		if width == 0 {
			width = 4
		}
		f.align(width)
		binary.LittleEndian.PutUint16(f.text[index+4+2*v.slot:], uint16(len(f.text)-at))
		if v.width == 0 {
			references = append(references, len(f.text))
		}
		for i := range width {
			f.text = append(f.text, byte(v.n>>(8*i)))
		}
	}
	binary.LittleEndian.PutUint16(f.text[index:], uint16(4+2*slots))
	binary.LittleEndian.PutUint16(f.text[index+2:], uint16(len(f.text)-at))
	return at, references
}

// point sets a reference to a later offset.
func (f *flat) point(reference, at int) {
	binary.LittleEndian.PutUint32(f.text[reference:], uint32(at-reference))
}

// string appends a string and returns its offset.
func (f *flat) string(s string) int {
	f.align(4)
	at := len(f.text)
	f.text = append(binary.LittleEndian.AppendUint32(f.text, uint32(len(s))), s...)
	f.text = append(f.text, 0)
	return at
}

// structs appends a list of structs of 16 bytes, each of 8-byte numbers, and returns its offset.
func (f *flat) structs(all []byte) int {
	f.align(8)
	f.text = append(f.text, 0, 0, 0, 0)
	at := len(f.text)
	f.text = append(binary.LittleEndian.AppendUint32(f.text, uint32(len(all)/16)), all...)
	return at
}

// references appends a list of n references. references returns the offset of the list and the offsets of the
// references.
func (f *flat) references(n int) (at int, references []int) {
	f.align(4)
	at = len(f.text)
	f.text = binary.LittleEndian.AppendUint32(f.text, uint32(n))
	for range n {
		references = append(references, len(f.text))
		f.text = append(f.text, 0, 0, 0, 0)
	}
	return at, references
}

// Used values of Arrow's Message.fbs.
const (
	version5    = 4
	isSchema    = 1
	isBatch     = 3
	doubleWidth = 2 // the precision of FloatingPoint
)

// newMessage begins a message and returns the reference to its header.
func newMessage(kind, body int) (f *flat, header int) {
	f = &flat{text: make([]byte, 4)}
	at, references := f.table(value{3, 8, uint64(body)}, value{2, 0, 0}, value{0, 2, version5}, value{1, 1, uint64(kind)})
	f.point(0, at)
	return f, references[0]
}

// schemaOf returns the schema message with the names and types of columns.
func schemaOf(columns []*Column) []byte {
	f, header := newMessage(isSchema, 0)
	schema, fields := f.table(value{1, 0, 0})
	f.point(header, schema)
	list, each := f.references(len(columns))
	f.point(fields[0], list)
	for i, c := range columns {
		nullable := uint64(0)
		if c.Optional {
			nullable = 1
		}
		field, inner := f.table(value{0, 0, 0}, value{3, 0, 0}, value{5, 0, 0}, value{1, 1, nullable}, value{2, 1, uint64(c.Kind)})
		f.point(each[i], field)
		f.point(inner[0], f.string(c.Name))
		var kind int
		switch c.Kind {
		case Int64:
			kind, _ = f.table(value{0, 4, 64}, value{1, 1, 1})
		case Double:
			kind, _ = f.table(value{0, 2, doubleWidth})
		default:
			kind, _ = f.table()
		}
		f.point(inner[1], kind)
		children, _ := f.references(0)
		f.point(inner[2], children)
	}
	return f.text
}

// batchOf returns the record-batch message of rows, for a body of this number of bytes.
func batchOf(rows int, nodes, buffers []byte, body int) []byte {
	f, header := newMessage(isBatch, body)
	batch, lists := f.table(value{0, 8, uint64(rows)}, value{1, 0, 0}, value{2, 0, 0})
	f.point(header, batch)
	f.point(lists[0], f.structs(nodes))
	f.point(lists[1], f.structs(buffers))
	return f.text
}
