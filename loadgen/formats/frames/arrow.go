package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

// fileMagic is the start of an Arrow file. An Arrow stream starts with its first message.
const fileMagic = "ARROW1"

const (
	maxMessage = 64 << 20 // bytes of the metadata of a message
	maxBody    = 2 << 30  // bytes of the body of a message
)

// Types in Schema.fbs of Arrow.
const (
	isNull            = 1
	isInt             = 2
	isFloat           = 3
	isBinary          = 4
	isUTF8            = 5
	isBool            = 6
	isDate            = 8
	isTime            = 9
	isTimestamp       = 10
	isList            = 12
	isStruct          = 13
	isFixedSizeBinary = 15
	isFixedSizeList   = 16
	isMap             = 17
	isDuration        = 18
	isLargeBinary     = 19
	isLargeUTF8       = 20
	isLargeList       = 21
	isBinaryView      = 23
	isUTF8View        = 24
)

// field is a column, or a child of a column.
type field struct {
	name     string
	kind     byte
	width    int           // bytes of a number, or length of a fixed-size value
	signed   bool          // whether an integer is signed
	unit     time.Duration // unit of timestamps and dates
	children []*field
	words    int64  // id of the dictionary
	index    *field // integer type of the indices into the dictionary; nil if there is no dictionary
}

// arrow reads the record batches of a file or a stream.
type arrow struct {
	in     io.Reader
	file   io.ReaderAt // nil for a stream
	blocks []block     // messages of the file not read yet
	fields []*field
	words  map[int64]*array
	zstd   *zstd.Decoder
	batch  []*array
	row, n int
}

// block is the offset and size of a message in a file.
type block struct{ from, size int64 }

// openArrow opens a file or a stream and reads its schema.
func openArrow(in io.ReaderAt, size int64) (*arrow, error) {
	a := &arrow{in: io.NewSectionReader(in, 0, size), words: map[int64]*array{}}
	head := make([]byte, len(fileMagic))
	if _, err := in.ReadAt(head, 0); err != nil {
		return nil, err
	}
	var schema table
	var err error
	if string(head) == fileMagic {
		a.file = in
		schema, err = a.readFooter(size)
	} else {
		var m table
		if m, _, err = a.message(); err == nil && m.byteOf(1) != 1 {
			err = errors.New("the first message is no schema")
		}
		schema = m.inner(2)
	}
	if err != nil {
		return nil, err
	}
	if schema.short(0) != 0 {
		return nil, errors.New("numbers begin with their highest byte, must begin with the lowest")
	}
	if a.fields, err = fieldsOf(schema, 1, 0); err != nil {
		return nil, err
	}
	a.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBody))
	return a, err
}

// readFooter reads the offsets of the messages of a file, and returns its schema.
func (a *arrow) readFooter(size int64) (schema table, err error) {
	end := make([]byte, 4+len(fileMagic))
	at := size - int64(len(end))
	if _, err := a.file.ReadAt(end, max(at, 0)); err != nil {
		return schema, err
	}
	n := int64(int32(binary.LittleEndian.Uint32(end)))
	if string(end[4:]) != fileMagic || n < 8 || n > min(at, maxMessage) {
		return schema, errCut
	}
	text := make([]byte, n)
	if _, err := a.file.ReadAt(text, at-n); err != nil {
		return schema, err
	}
	footer := rootOf(text)
	for _, slot := range []int{2, 3} { // dictionaries, record batches
		from, count := footer.list(slot, 24)
		for i := range count {
			b := from + 24*i
			a.blocks = append(a.blocks, block{footer.i64(b), int64(footer.i32(b+8)) + footer.i64(b+16)})
		}
	}
	return footer.inner(1), nil
}

// next reads the next message after the schema.
func (a *arrow) next() (m table, body []byte, err error) {
	if a.file != nil {
		if len(a.blocks) == 0 {
			return m, nil, io.EOF
		}
		b := a.blocks[0]
		if a.blocks = a.blocks[1:]; b.from < 0 || b.size < 0 {
			return m, nil, errCut
		}
		a.in = io.NewSectionReader(a.file, b.from, b.size)
	}
	return a.message()
}

// message reads a message and its body. A message without metadata is the end of a stream.
func (a *arrow) message() (m table, body []byte, err error) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(a.in, head); err != nil {
		return m, nil, err // the end marker of a stream is optional
	}
	size := int(int32(binary.LittleEndian.Uint32(head[4:])))
	if binary.LittleEndian.Uint32(head) != 1<<32-1 {
		return m, nil, errors.New("a message begins without its mark; files of Arrow before 0.15 are not supported")
	}
	if size == 0 {
		return m, nil, io.EOF
	}
	if size < 0 || size > maxMessage {
		return m, nil, fmt.Errorf("a message has %d bytes of metadata", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(a.in, text); err != nil {
		return m, nil, errCut
	}
	m = rootOf(text)
	length := m.long(3)
	if length < 0 || length > maxBody {
		return m, nil, fmt.Errorf("a batch has %d bytes, must have at most %d", length, maxBody)
	}
	body, err = io.ReadAll(io.LimitReader(a.in, length))
	if err == nil && int64(len(body)) < length {
		err = errCut
	}
	return m, body, err
}

// errCut is the error for a truncated file.
var errCut = io.ErrUnexpectedEOF

// fieldsOf returns the fields in the list at a slot of a table.
func fieldsOf(t table, slot, deep int) (all []*field, err error) {
	from, n := t.list(slot, 4)
	if deep > 32 {
		return nil, errors.New("the schema is too deep")
	}
	for i := range n {
		x := t.follow(from + 4*i)
		f := &field{name: x.text(0)}
		if err := f.setType(x.byteOf(2), x.inner(3)); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.name, err)
		}
		if f.children, err = fieldsOf(x, 5, deep+1); err != nil {
			return nil, err
		}
		if x.has(4) {
			d := x.inner(4)
			f.words, f.index = d.long(0), &field{kind: isInt, width: 4, signed: true}
			if d.has(1) {
				if err := f.index.setType(isInt, d.inner(1)); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// setType sets the type of a field. t has the parameters of the type.
func (f *field) setType(kind byte, t table) error {
	f.kind = kind
	units := [...]time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}
	switch kind {
	case isInt:
		f.width, f.signed = t.whole(0)/8, t.byteOf(1) != 0
		if f.width != 1 && f.width != 2 && f.width != 4 && f.width != 8 {
			return fmt.Errorf("whole numbers of %d bits are not supported", t.whole(0))
		}
	case isFloat:
		if f.width = 2 << t.short(0); f.width != 4 && f.width != 8 {
			return errors.New("numbers of 16 bits are not supported")
		}
	case isDate:
		f.width, f.signed, f.unit = 4, true, 24*time.Hour
		if !t.has(0) || t.short(0) != 0 {
			f.width, f.unit = 8, time.Millisecond
		}
	case isTimestamp:
		f.width, f.signed, f.unit = 8, true, units[t.short(0)&3]
	case isTime:
		f.width, f.signed = 4, true
		if t.has(1) {
			f.width = t.whole(1) / 8
		}
	case isDuration:
		f.width, f.signed = 8, true
	case isFixedSizeBinary, isFixedSizeList:
		if f.width = t.whole(0); f.width < 1 {
			return errors.New("a fixed size is missing")
		}
	case isNull, isBool, isBinary, isUTF8, isLargeBinary, isLargeUTF8, isBinaryView, isUTF8View, isList, isLargeList, isStruct, isMap:
	default:
		return fmt.Errorf("type %d is not supported: must be numbers, truths, texts, times, lists or structs", kind)
	}
	return nil
}

// Append appends the next row to line as JSON. Append returns io.EOF after the last row.
func (a *arrow) Append(line []byte) ([]byte, error) {
	for a.row == a.n {
		m, body, err := a.next()
		if err != nil {
			return line, err
		}
		switch m.byteOf(1) {
		case 2:
			err = a.addWords(m.inner(2), body)
		case 3:
			b := m.inner(2)
			a.batch, err = a.decode(b, body, a.fields)
			a.row, a.n = 0, int(b.long(0))
			for _, x := range a.batch {
				if x.n < a.n {
					err = errors.New("a column has fewer rows than its batch")
				}
			}
		}
		if err != nil {
			return line, err
		}
	}
	line = append(line, '{')
	for i, x := range a.batch {
		var err error
		if line, err = x.appendMember(line, i, a.row); err != nil {
			return line, err
		}
	}
	a.row++
	return append(line, '}'), nil
}

// addWords reads a dictionary batch.
func (a *arrow) addWords(t table, body []byte) error {
	id := t.long(0)
	f := findWords(a.fields, id)
	switch {
	case f == nil:
		return fmt.Errorf("a dictionary %d of no column", id)
	case t.byteOf(2) != 0:
		return errors.New("dictionaries that grow are not supported")
	}
	plain := *f
	plain.index = nil
	all, err := a.decode(t.inner(1), body, []*field{&plain})
	if err == nil {
		a.words[id] = all[0]
	}
	return err
}

// findWords returns the field with the dictionary id. findWords returns nil if no field has this dictionary.
func findWords(all []*field, id int64) *field {
	for _, f := range all {
		if f.index != nil && f.words == id {
			return f
		}
		if x := findWords(f.children, id); x != nil {
			return x
		}
	}
	return nil
}
