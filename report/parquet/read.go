package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// File is a file to read. Writer, or parquet-go with the same encodings, has written it.
type File struct {
	in      io.ReaderAt
	size    int64
	meta    format.FileMetaData
	Columns []Column
}

// Open reads the metadata of a file.
func Open(in interface {
	io.ReaderAt
	io.Seeker
}) (*File, error) {
	size, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	var end [8]byte
	if size < int64(len(magic)+len(end)) {
		return nil, fmt.Errorf("%d bytes, must be a Parquet file", size)
	}
	if _, err := in.ReadAt(end[:], size-int64(len(end))); err != nil {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(end[:4]))
	if string(end[4:]) != magic || length > size-int64(len(magic)+len(end)) {
		return nil, errors.New("the end is missing, must be a Parquet file")
	}
	text := make([]byte, length)
	if _, err := in.ReadAt(text, size-int64(len(end))-length); err != nil {
		return nil, err
	}
	f := &File{in: in, size: size}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), text, &f.meta); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return f, f.readSchema()
}

// readSchema reads the columns. The file must be flat.
func (f *File) readSchema() error {
	if len(f.meta.Schema) == 0 {
		return errors.New("no schema")
	}
	for _, e := range f.meta.Schema[1:] {
		if !e.Type.Valid || !slices.Contains([]Kind{Bool, Int32, Int64, Double, Text}, e.Type.V) {
			return fmt.Errorf("%s is of type %v, must be a column of numbers, truths or texts", e.Name, e.Type.V)
		}
		f.Columns = append(f.Columns, Column{
			Name: e.Name, Kind: e.Type.V, Optional: e.RepetitionType.V == format.Optional, List: e.RepetitionType.V == format.Repeated,
		})
	}
	rows := int64(0)
	for _, g := range f.meta.RowGroups {
		if len(g.Columns) != len(f.Columns) || g.NumRows < 0 {
			return fmt.Errorf("a group has %d columns and %d rows, must be %d columns", len(g.Columns), g.NumRows, len(f.Columns))
		}
		rows += g.NumRows
	}
	if rows != f.meta.NumRows {
		return fmt.Errorf("%d rows in groups, must be %d", rows, f.meta.NumRows)
	}
	return nil
}

// Groups returns the number of rows of each row group.
func (f *File) Groups() []int {
	var all []int
	for _, g := range f.meta.RowGroups {
		all = append(all, int(g.NumRows))
	}
	return all
}

// Read reads a column of a row group.
func (f *File) Read(group, column int) (*Values, error) {
	meta, c := &f.meta.RowGroups[group].Columns[column].MetaData, &f.Columns[column]
	v, err := f.readChunk(meta, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	rows, want := v.countRows(), f.meta.RowGroups[group].NumRows
	if int64(rows) != want {
		return nil, fmt.Errorf("%s: %d rows, must be %d", c.Name, rows, want)
	}
	return v, nil
}

func (f *File) readChunk(meta *format.ColumnMetaData, c *Column) (*Values, error) {
	if meta.Type != c.Kind {
		return nil, fmt.Errorf("is of type %v, must be %v", meta.Type, c.Kind)
	}
	if meta.DataPageOffset < 0 || meta.TotalCompressedSize < 0 || meta.DataPageOffset > f.size-meta.TotalCompressedSize {
		return nil, fmt.Errorf("%d bytes at %d, must be within %d", meta.TotalCompressedSize, meta.DataPageOffset, f.size)
	}
	text := make([]byte, meta.TotalCompressedSize)
	if _, err := f.in.ReadAt(text, meta.DataPageOffset); err != nil {
		return nil, err
	}
	v := &Values{column: c}
	for in := bytes.NewReader(text); in.Len() > 0; {
		var header format.PageHeader
		if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(in)).Decode(&header); err != nil {
			return nil, fmt.Errorf("header of a page: %w", err)
		}
		at := len(text) - in.Len()
		if header.CompressedPageSize < 0 || int(header.CompressedPageSize) > in.Len() {
			return nil, fmt.Errorf("a page of %d bytes, must be at most %d", header.CompressedPageSize, in.Len())
		}
		body := text[at : at+int(header.CompressedPageSize)]
		if _, err := in.Seek(int64(len(body)), io.SeekCurrent); err != nil {
			return nil, err
		}
		if err := v.readPage(&header, body, meta.Codec); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// readPage appends the values of a page.
func (v *Values) readPage(header *format.PageHeader, body []byte, codec format.CompressionCodec) error {
	h := &header.DataPageHeaderV2.V
	levels := int(h.RepetitionLevelsByteLength) + int(h.DefinitionLevelsByteLength)
	switch {
	case header.Type != format.DataPageV2:
		return fmt.Errorf("a page of type %v, must be %v", header.Type, format.DataPageV2)
	case header.CRC != 0 && crc32.ChecksumIEEE(body) != uint32(header.CRC):
		return errors.New("a page is damaged: its checksum is another")
	case h.RepetitionLevelsByteLength < 0 || h.DefinitionLevelsByteLength < 0 || levels > len(body) || h.NumValues < h.NumNulls || h.NumNulls < 0:
		return errors.New("the header of a page makes no sense")
	case codec != format.Uncompressed && codec != format.Snappy:
		return fmt.Errorf("compressed with %v, must be %v or nothing", codec, format.Snappy)
	}
	further, err := decodeLevels(body[:h.RepetitionLevelsByteLength], v.column.List, int(h.NumValues))
	if err != nil {
		return err
	}
	defined, err := decodeLevels(body[h.RepetitionLevelsByteLength:levels], v.column.hasLevels(), int(h.NumValues))
	if err != nil {
		return err
	}
	v.Further, v.Defined = append(v.Further, further...), append(v.Defined, defined...)
	values := body[levels:]
	if codec == format.Snappy {
		if values, err = new(snappy.Codec).Decode(nil, values); err != nil {
			return err
		}
	}
	before, want := v.countValues(), int(h.NumValues-h.NumNulls)
	if nulls := bytes.Count(defined, []byte{0}); nulls != int(h.NumNulls) {
		return fmt.Errorf("%d values are not there, must be %d", nulls, h.NumNulls)
	}
	if err := v.decodeValues(h.Encoding, values, want); err != nil {
		return err
	}
	if n := v.countValues() - before; n != want {
		return fmt.Errorf("%d values in a page, must be %d", n, want)
	}
	return nil
}

// decodeLevels decodes this number of levels of 0 and 1; nil if the column has none.
func decodeLevels(text []byte, has bool, places int) ([]byte, error) {
	if !has {
		return nil, nil
	}
	levels, err := (&rle.Encoding{BitWidth: 1}).DecodeLevels(nil, text)
	if err != nil {
		return nil, err
	}
	if len(levels) < places {
		return nil, fmt.Errorf("%d levels, must be %d", len(levels), places)
	}
	return levels[:places], nil // bits come by eight
}
