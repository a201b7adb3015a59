// Package parquetfile reads Parquet files of pandas, pyarrow, Polars, DuckDB and Hugging Face. The package returns
// rows with nested columns as JSON, and flat columns as slices.
//
// Read file.go, then pages.go, flat.go and rows.go.
package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Magic is the text at the begin and the end of a Parquet file.
const Magic = "PAR1"

const (
	maxPage   = 256 << 20 // maximum size of a decompressed page, in bytes
	maxValues = 16 << 20  // maximum number of values of a page
	maxMeta   = 256 << 20 // maximum size of the metadata, in bytes
	maxDeep   = 32        // maximum depth of nested groups
)

// File is a Parquet file. Columns are decoded when they are read.
type File struct {
	in     io.ReaderAt
	size   int64
	meta   format.FileMetaData
	root   *node
	leaves []*node
	zstd   *zstd.Decoder
}

// node is an element of the schema: a column or a group of elements.
type node struct {
	*format.SchemaElement
	children    []*node
	from, to    int   // the columns of the element
	defined     int32 // definition level of its values; for a list, of its entries
	repetition  int32 // repetition level of its entries
	optional    bool
	repeated    bool
	isTextValue bool // the column has text, not other bytes
}

// Open reads the metadata of a file.
func Open(in io.ReaderAt, size int64) (*File, error) {
	end := make([]byte, 8)
	if size < 12 {
		return nil, errors.New("not a Parquet file")
	}
	if _, err := in.ReadAt(end, size-8); err != nil {
		return nil, err
	}
	if string(end[4:]) != Magic {
		return nil, errors.New("not a Parquet file, or one that is cut off")
	}
	length := int64(binary.LittleEndian.Uint32(end))
	if length > min(size-12, maxMeta) {
		return nil, fmt.Errorf("metadata has %d bytes, must be at most %d", length, min(size-12, maxMeta))
	}
	text := make([]byte, length)
	if _, err := in.ReadAt(text, size-8-length); err != nil {
		return nil, err
	}
	f := &File{in: in, size: size}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), text, &f.meta); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if f.meta.NumRows < 0 {
		return nil, fmt.Errorf("%d rows, must be at least 0", f.meta.NumRows)
	}
	if len(f.meta.Schema) == 0 {
		return nil, errors.New("no schema")
	}
	rest, err := f.addNode(&node{}, 0, 0)
	if err == nil && rest != len(f.meta.Schema) {
		err = errors.New("the schema has elements outside of its root")
	}
	if err != nil {
		return nil, err
	}
	f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage))
	return f, err
}

// addNode adds the schema element at index at to a group. addNode returns the index of the next element.
func (f *File) addNode(group *node, at, deep int) (int, error) {
	if at >= len(f.meta.Schema) || deep > maxDeep {
		return 0, errors.New("the schema is cut off, or too deep")
	}
	n := &node{SchemaElement: &f.meta.Schema[at], from: len(f.leaves), defined: group.defined, repetition: group.repetition}
	if deep > 0 {
		n.optional = n.RepetitionType.V == format.Optional
		n.repeated = n.RepetitionType.V == format.Repeated
		group.children = append(group.children, n)
	} else {
		f.root = n
	}
	if n.optional || n.repeated {
		n.defined++
	}
	if n.repeated {
		n.repetition++
	}
	at++
	if n.NumChildren.V == 0 && deep > 0 {
		n.isTextValue = isText(n.SchemaElement)
		f.leaves = append(f.leaves, n)
	}
	for range n.NumChildren.V {
		var err error
		if at, err = f.addNode(n, at, deep+1); err != nil {
			return 0, err
		}
	}
	n.to = len(f.leaves)
	return at, nil
}

// Rows returns the number of rows.
func (f *File) Rows() int { return int(f.meta.NumRows) }

// readChunk returns the bytes of a column chunk of a row group.
func (f *File) readChunk(meta *format.ColumnMetaData) ([]byte, error) {
	first := meta.DataPageOffset
	if d := meta.DictionaryPageOffset; d > 0 && d < first {
		first = d
	}
	if first < 0 || meta.TotalCompressedSize < 0 || first > f.size-meta.TotalCompressedSize {
		return nil, errors.New("a column lies outside of the file")
	}
	text := make([]byte, meta.TotalCompressedSize)
	_, err := f.in.ReadAt(text, first)
	if err == io.EOF {
		err = nil
	}
	return text, err
}
