package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/pierrec/lz4/v4"

	"github.com/replay-llm/replay/internal/parquetfile"
)

// array has the values of a field in a batch.
type array struct {
	*field
	n        int
	valid    []byte   // validity bitmap; nil if no value is null
	data     []byte   // numbers, texts, or views of texts
	ends     []byte   // offsets of texts and lists
	more     [][]byte // data buffers of views
	children []*array
	words    *array // the dictionary
}

// batch is a reader of the arrays of a record batch.
type batch struct {
	*arrow
	t             table
	body          []byte
	nodes         int // offset of the next field node
	nodesLeft     int
	buffers       int // offset of the next buffer description
	buffersLeft   int
	packed        bool
	codec         byte
	views, viewed int // offset of the next variadic buffer count, and number of counts left
}

// decode returns the arrays of fields in a record batch.
func (a *arrow) decode(t table, body []byte, fields []*field) (all []*array, err error) {
	b := &batch{arrow: a, t: t, body: body}
	b.nodes, b.nodesLeft = t.list(1, 16)
	b.buffers, b.buffersLeft = t.list(2, 16)
	b.views, b.viewed = t.list(4, 8)
	if b.packed = t.has(3); b.packed {
		b.codec = t.inner(3).byteOf(0)
	}
	return b.arrays(fields)
}

func (b *batch) arrays(fields []*field) (all []*array, err error) {
	for _, f := range fields {
		x, err := b.array(f)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.name, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// array reads the next array, for field f.
func (b *batch) array(f *field) (*array, error) {
	if b.nodesLeft == 0 {
		return nil, errors.New("the batch has no length for it")
	}
	x := &array{field: f, n: int(b.t.i64(b.nodes))}
	b.nodes, b.nodesLeft = b.nodes+16, b.nodesLeft-1
	if x.n < 0 || x.n > 1<<31 {
		return nil, fmt.Errorf("%d values", x.n)
	}
	if f.kind == isNull {
		return x, nil
	}
	var err error
	if x.valid, err = b.buffer(); err != nil {
		return nil, err
	}
	if len(x.valid) == 0 {
		x.valid = nil
	} else if len(x.valid) < (x.n+7)/8 {
		return nil, errCut
	}
	if f.index != nil {
		if x.words = b.arrow.words[f.words]; x.words == nil {
			return nil, errors.New("its dictionary is missing")
		}
		x.data, err = b.sized(x.n, f.index.width)
		return x, err
	}
	switch f.kind {
	case isBool:
		if x.data, err = b.buffer(); err == nil && len(x.data) < (x.n+7)/8 {
			err = errCut
		}
	case isBinary, isUTF8, isLargeBinary, isLargeUTF8:
		if x.ends, err = b.ends(x); err == nil {
			x.data, err = b.buffer()
		}
	case isBinaryView, isUTF8View:
		if x.data, err = b.sized(x.n, 16); err == nil && b.viewed > 0 {
			n := b.t.i64(b.views)
			b.views, b.viewed = b.views+8, b.viewed-1
			for ; n > 0 && err == nil; n-- {
				var text []byte
				text, err = b.buffer()
				x.more = append(x.more, text)
			}
		}
	case isList, isMap, isLargeList:
		x.ends, err = b.ends(x)
	case isFixedSizeList, isStruct:
	default:
		x.data, err = b.sized(x.n, f.width)
	}
	if err == nil {
		x.children, err = b.arrays(f.children)
	}
	if isOf := f.kind == isList || f.kind == isMap || f.kind == isLargeList || f.kind == isFixedSizeList; err == nil && isOf && len(f.children) != 1 {
		err = errors.New("a list must have one column")
	}
	return x, err
}

// isWide reports whether offsets have 64 bits.
func (f *field) isWide() bool {
	return f.kind == isLargeBinary || f.kind == isLargeUTF8 || f.kind == isLargeList
}

// ends reads the offsets of the values of x.
func (b *batch) ends(x *array) ([]byte, error) {
	width := 4
	if x.isWide() {
		width = 8
	}
	if x.n == 0 {
		return b.buffer()
	}
	return b.sized(x.n+1, width)
}

// sized reads a buffer of at least n values. width is the size of a value in bytes.
func (b *batch) sized(n, width int) ([]byte, error) {
	text, err := b.buffer()
	if err == nil && len(text)/width < n {
		err = errCut
	}
	return text, err
}

// buffer reads and decompresses the next buffer of the body.
func (b *batch) buffer() ([]byte, error) {
	if b.buffersLeft == 0 {
		return nil, errCut
	}
	from, size := b.t.i64(b.buffers), b.t.i64(b.buffers+8)
	b.buffers, b.buffersLeft = b.buffers+16, b.buffersLeft-1
	if from < 0 || size < 0 || from > int64(len(b.body)) || size > int64(len(b.body))-from {
		return nil, errCut
	}
	text := b.body[from : from+size]
	if !b.packed || size < 8 {
		return text, nil
	}
	plain := int64(binary.LittleEndian.Uint64(text))
	switch text = text[8:]; {
	case plain == -1:
		return text, nil
	case plain < 0 || plain > maxBody:
		return nil, fmt.Errorf("a buffer of %d bytes, must be at most %d", plain, maxBody)
	case b.codec == 1:
		return b.zstd.DecodeAll(text, nil)
	}
	return unpackLZ4(text, int(plain))
}

// unpackLZ4 decompresses an LZ4 frame to size bytes.
func unpackLZ4(text []byte, size int) ([]byte, error) {
	if len(text) < 7 || binary.LittleEndian.Uint32(text) != 0x184d2204 {
		return nil, errors.New("a buffer is no frame of LZ4")
	}
	flags := text[4]
	head := 7
	if flags&8 != 0 {
		head += 8 // content size
	}
	if flags&1 != 0 {
		head += 4 // dictionary id
	}
	out := make([]byte, 0, min(size, 256*len(text)))
	for text = text[min(head, len(text)):]; len(text) >= 4; {
		word := binary.LittleEndian.Uint32(text)
		n := int(word &^ (1 << 31))
		if text = text[4:]; word == 0 {
			break
		}
		if n > len(text) {
			return nil, errCut
		}
		block := text[:n]
		if text = text[n:]; flags&16 != 0 {
			text = text[min(4, len(text)):] // block checksum
		}
		if word>>31 != 0 {
			out = append(out, block...)
			continue
		}
		room := make([]byte, min(4<<20, max(size-len(out), 0)))
		got, err := lz4.UncompressBlockWithDict(block, room, out[max(0, len(out)-64<<10):])
		if err != nil {
			return nil, err
		}
		out = append(out, room[:got]...)
	}
	if len(out) != size {
		return nil, errCut
	}
	return out, nil
}

// appendMember appends the name of the column and its value i as a JSON member. place is the index of the member in
// its object.
func (x *array) appendMember(line []byte, place, i int) ([]byte, error) {
	if place > 0 {
		line = append(line, ',')
	}
	line = append(parquetfile.AppendText(line, []byte(x.name)), ':')
	return x.append(line, i)
}

// append appends value i as JSON.
func (x *array) append(line []byte, i int) ([]byte, error) {
	if i < 0 || i >= x.n {
		return line, errCut
	}
	if x.kind == isNull || x.valid != nil && x.valid[i/8]>>(i%8)&1 == 0 {
		return append(line, "null"...), nil
	}
	if x.words != nil {
		return x.words.append(line, int(readNumber(x.data, x.index, i)))
	}
	switch x.kind {
	case isBool:
		return strconv.AppendBool(line, x.data[i/8]>>(i%8)&1 != 0), nil
	case isFloat:
		v := readNumber(x.data, x.field, i)
		if x.width == 4 {
			return parquetfile.AppendFloat(line, float64(math.Float32frombits(uint32(v)))), nil
		}
		return parquetfile.AppendFloat(line, math.Float64frombits(uint64(v))), nil
	case isInt, isTime, isDuration, isDate, isTimestamp:
		v := readNumber(x.data, x.field, i)
		switch {
		case x.unit > 0:
			return parquetfile.AppendTime(line, v, x.unit), nil
		case !x.signed:
			return strconv.AppendUint(line, uint64(v), 10), nil
		}
		return strconv.AppendInt(line, v, 10), nil
	case isStruct:
		line = append(line, '{')
		for place, child := range x.children {
			var err error
			if line, err = child.appendMember(line, place, i); err != nil {
				return line, err
			}
		}
		return append(line, '}'), nil
	case isList, isMap, isLargeList:
		from, to := x.span(i)
		return x.appendList(line, from, to)
	case isFixedSizeList:
		return x.appendList(line, i*x.width, (i+1)*x.width)
	}
	text, err := x.text(i)
	if err != nil {
		return line, err
	}
	if !utf8.Valid(text) {
		return append(line, "null"...), nil // binary data, for example an image
	}
	return parquetfile.AppendText(line, text), nil
}

// appendList appends the values from to to-1 of the child array as a JSON list.
func (x *array) appendList(line []byte, from, to int) ([]byte, error) {
	line = append(line, '[')
	for i := from; i < to; i++ {
		if i > from {
			line = append(line, ',')
		}
		var err error
		if line, err = x.children[0].append(line, i); err != nil {
			return line, err
		}
	}
	return append(line, ']'), nil
}

// span returns the offsets of the start and the end of value i.
func (x *array) span(i int) (from, to int) {
	if x.isWide() {
		return int(binary.LittleEndian.Uint64(x.ends[8*i:])), int(binary.LittleEndian.Uint64(x.ends[8*i+8:]))
	}
	return int(int32(binary.LittleEndian.Uint32(x.ends[4*i:]))), int(int32(binary.LittleEndian.Uint32(x.ends[4*i+4:])))
}

// text returns the bytes of value i.
func (x *array) text(i int) ([]byte, error) {
	data, from, to := x.data, 0, 0
	switch x.kind {
	case isFixedSizeBinary:
		from, to = i*x.width, (i+1)*x.width
	case isBinaryView, isUTF8View:
		view := x.data[16*i : 16*i+16]
		size := int(int32(binary.LittleEndian.Uint32(view)))
		if size <= 12 {
			data, from, to = view, 4, 4+size
			break
		}
		which := int(int32(binary.LittleEndian.Uint32(view[8:])))
		if which < 0 || which >= len(x.more) {
			return nil, errCut
		}
		data, from = x.more[which], int(int32(binary.LittleEndian.Uint32(view[12:])))
		to = from + size
	default:
		from, to = x.span(i)
	}
	if from < 0 || to < from || to > len(data) {
		return nil, errCut
	}
	return data[from:to], nil
}

// readNumber returns number i. A float is returned as its bits.
func readNumber(data []byte, f *field, i int) int64 {
	at := data[i*f.width:]
	switch f.width {
	case 1:
		if f.signed {
			return int64(int8(at[0]))
		}
		return int64(at[0])
	case 2:
		n := binary.LittleEndian.Uint16(at)
		if f.signed {
			return int64(int16(n))
		}
		return int64(n)
	case 4:
		n := binary.LittleEndian.Uint32(at)
		if f.signed {
			return int64(int32(n))
		}
		return int64(n)
	}
	return int64(binary.LittleEndian.Uint64(at))
}
