package wheel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	magic   = "PAR1"
	maxPage = 64 << 20 // bytes of a page once decompressed
	maxRows = 4 << 20  // of a file
)

// Table is a Parquet file of flat columns, as pandas and pyarrow write it: plain or dictionary encoded, compressed with
// snappy or zstd. Columns are decoded when they are asked for.
type Table struct {
	text []byte
	meta format.FileMetaData
	zstd *zstd.Decoder
}

// readTable reads the metadata of a file.
func readTable(text []byte) (*Table, error) {
	n := len(text)
	if n < 12 || string(text[n-4:]) != magic {
		return nil, errors.New("not a Parquet file")
	}
	size := int(binary.LittleEndian.Uint32(text[n-8:]))
	if size > n-12 {
		return nil, fmt.Errorf("metadata has %d bytes, must be at most %d", size, n-12)
	}
	t := &Table{text: text}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), text[n-8-size:n-8], &t.meta); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if t.meta.NumRows < 0 || t.meta.NumRows > maxRows {
		return nil, fmt.Errorf("%d rows, must be at most %d", t.meta.NumRows, maxRows)
	}
	var err error
	t.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage))
	return t, err
}

// Rows returns the number of rows.
func (t *Table) Rows() int { return int(t.meta.NumRows) }

// Has reports whether the file has a column.
func (t *Table) Has(name string) bool { return t.find(name) >= 0 }

func (t *Table) find(name string) int {
	for i := 1; i < len(t.meta.Schema); i++ {
		if t.meta.Schema[i].Name == name {
			return i - 1
		}
	}
	return -1
}

// Ints returns a column of whole numbers; a missing value is 0.
func (t *Table) Ints(name string) ([]int64, error) {
	all := make([]int64, 0, t.Rows())
	err := t.readColumn(name, format.Int64, func(p *page) error {
		var err error
		all, err = appendValues(all, p, 8, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
		return err
	})
	return all, err
}

// Doubles returns a column of numbers; a missing value is 0.
func (t *Table) Doubles(name string) ([]float64, error) {
	all := make([]float64, 0, t.Rows())
	err := t.readColumn(name, format.Double, func(p *page) error {
		var err error
		all, err = appendValues(all, p, 8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
		return err
	})
	return all, err
}

// Texts returns a column of texts; a missing value is "".
func (t *Table) Texts(name string) ([]string, error) {
	all := make([]string, 0, t.Rows())
	err := t.readColumn(name, format.ByteArray, func(p *page) error {
		var err error
		all, err = appendValues(all, p, 0, func(b []byte) string { return string(b) })
		return err
	})
	return all, err
}

// page is the values of one page: either plain, or indices of the dictionary.
type page struct {
	rows    int
	defined []int32 // 1 where a row has a value; nil: all have one
	plain   []byte
	indices []int32 // nil: plain values
	words   []byte  // the dictionary, plain
}

// readColumn decodes the pages of a column, each of which it hands to use.
func (t *Table) readColumn(name string, kind format.Type, use func(*page) error) error {
	at := t.find(name)
	if at < 0 {
		return fmt.Errorf("no column %s", name)
	}
	rows := 0
	for _, g := range t.meta.RowGroups {
		if at >= len(g.Columns) {
			return fmt.Errorf("%s: a row group has %d columns", name, len(g.Columns))
		}
		meta := &g.Columns[at].MetaData
		if meta.Type != kind {
			return fmt.Errorf("%s: type %v, must be %v", name, meta.Type, kind)
		}
		n, err := t.readChunk(meta, t.meta.Schema[at+1].RepetitionType.V == format.Optional, use)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rows += n
	}
	if rows != t.Rows() {
		return fmt.Errorf("%s: %d rows, must be %d", name, rows, t.Rows())
	}
	return nil
}

// readChunk decodes the pages of a column in one group of rows and returns the number of its rows.
func (t *Table) readChunk(meta *format.ColumnMetaData, optional bool, use func(*page) error) (rows int, err error) {
	first := meta.DataPageOffset
	if d := meta.DictionaryPageOffset; d > 0 && d < first {
		first = d
	}
	if first < 0 || meta.TotalCompressedSize < 0 || first > int64(len(t.text))-meta.TotalCompressedSize {
		return 0, errors.New("a column lies outside of the file")
	}
	text := t.text[first : first+meta.TotalCompressedSize]
	var words []byte
	for in := bytes.NewReader(text); in.Len() > 0; {
		var header format.PageHeader
		if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(in)).Decode(&header); err != nil {
			return 0, fmt.Errorf("header of a page: %w", err)
		}
		at := len(text) - in.Len()
		if header.CompressedPageSize < 0 || int(header.CompressedPageSize) > in.Len() {
			return 0, fmt.Errorf("a page has %d bytes, must be at most %d", header.CompressedPageSize, in.Len())
		}
		body := text[at : at+int(header.CompressedPageSize)]
		if _, err := in.Seek(int64(len(body)), io.SeekCurrent); err != nil {
			return 0, err
		}
		if header.Type == format.DictionaryPage {
			if words, err = t.decompress(meta.Codec, body); err != nil {
				return 0, err
			}
			continue
		}
		p, err := t.readPage(&header, body, pageForm{meta.Codec, optional})
		if err != nil {
			return 0, err
		}
		p.words = words
		if rows += p.rows; rows > t.Rows() {
			return 0, fmt.Errorf("more than %d rows", t.Rows())
		}
		if err := use(p); err != nil {
			return 0, err
		}
	}
	return rows, nil
}

// pageForm is what the pages of a column have in common.
type pageForm struct {
	codec    format.CompressionCodec
	optional bool
}

// readPage decompresses a page and splits it into levels and values.
func (t *Table) readPage(header *format.PageHeader, body []byte, form pageForm) (*page, error) {
	p := &page{}
	var encoding format.Encoding
	var err error
	switch header.Type {
	case format.DataPage:
		h := &header.DataPageHeader.V
		p.rows, encoding = int(h.NumValues), h.Encoding
		if body, err = t.decompress(form.codec, body); err != nil {
			return nil, err
		}
		if form.optional {
			if len(body) < 4 || int(binary.LittleEndian.Uint32(body)) > len(body)-4 {
				return nil, errors.New("the levels of a page are cut off")
			}
			n := int(binary.LittleEndian.Uint32(body))
			if p.defined, err = decodeRuns(body[4:4+n], 1, p.rows); err != nil {
				return nil, err
			}
			body = body[4+n:]
		}
	case format.DataPageV2:
		h := &header.DataPageHeaderV2.V
		p.rows, encoding = int(h.NumValues), h.Encoding
		n := int(h.DefinitionLevelsByteLength)
		if n < 0 || n > len(body) || h.RepetitionLevelsByteLength != 0 {
			return nil, errors.New("the levels of a page are cut off")
		}
		if form.optional {
			if p.defined, err = decodeRuns(body[:n], 1, p.rows); err != nil {
				return nil, err
			}
		}
		if body, err = t.decompress(form.codec, body[n:]); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("page type %v is not supported", header.Type)
	}
	return p, p.setValues(encoding, body)
}

// countValues returns how many rows have a value.
func (p *page) countValues() int {
	n := p.rows
	for _, d := range p.defined {
		n -= 1 - int(d)
	}
	return n
}

// oldDictionary is the encoding of pages of indices that older writers name.
const oldDictionary format.Encoding = 2

// setValues takes over the values of a page.
func (p *page) setValues(encoding format.Encoding, body []byte) error {
	switch encoding {
	case format.Plain:
		p.plain = body
		return nil
	case oldDictionary, format.RLEDictionary:
		if len(body) == 0 || body[0] > 31 {
			return errors.New("the indices of a page are cut off")
		}
		var err error
		p.indices, err = decodeRuns(body[1:], int(body[0]), p.countValues())
		return err
	}
	return fmt.Errorf("encoding %v is not supported", encoding)
}

func (t *Table) decompress(codec format.CompressionCodec, body []byte) ([]byte, error) {
	switch codec {
	case format.Uncompressed:
		return body, nil
	case format.Snappy:
		n, err := snappy.DecodedLen(body)
		if err != nil {
			return nil, err
		}
		if n > maxPage {
			return nil, fmt.Errorf("a page of %d bytes, must be at most %d", n, maxPage)
		}
		return snappy.Decode(nil, body)
	case format.Zstd:
		return t.zstd.DecodeAll(body, nil)
	}
	return nil, fmt.Errorf("compression %v is not supported", codec)
}

// decodeRuns returns values of a width in bits: runs of one value, and groups of eight packed values.
func decodeRuns(text []byte, width, values int) ([]int32, error) {
	if values < 0 || values > maxRows {
		return nil, fmt.Errorf("a page has %d values", values)
	}
	all := make([]int32, 0, values)
	size := (width + 7) / 8
	for len(all) < values {
		header, n := binary.Uvarint(text)
		if n <= 0 {
			return nil, errors.New("a run is cut off")
		}
		text = text[n:]
		count := int(min(header>>1, maxRows))
		if header&1 == 0 {
			if size > len(text) {
				return nil, errors.New("a run is cut off")
			}
			value := unpackBits(text[:size], 0, width)
			for range min(count, values-len(all)) {
				all = append(all, value)
			}
			text = text[size:]
			if count == 0 {
				return nil, errors.New("a run has no values")
			}
			continue
		}
		if count*width > len(text) || count == 0 {
			return nil, errors.New("a run is cut off")
		}
		for i := range min(8*count, values-len(all)) {
			all = append(all, unpackBits(text, i*width, width))
		}
		text = text[count*width:]
	}
	return all, nil
}

// unpackBits returns the value of a width that begins at a bit, the lowest bit first.
func unpackBits(text []byte, from, width int) int32 {
	value := uint64(0)
	for i := 0; i < width; {
		at := from + i
		value |= uint64(text[at/8]>>(at%8)) << i
		i += 8 - at%8
	}
	return int32(value & (1<<width - 1))
}

// appendValues appends the values of a page. Values are of a width in bytes; 0: texts, each after its length.
func appendValues[T any](to []T, p *page, width int, parse func([]byte) T) ([]T, error) {
	next := func(from []byte) ([]byte, []byte, error) { // a value, what follows
		n := width
		if width == 0 {
			if len(from) < 4 {
				return nil, nil, errors.New("a value is cut off")
			}
			n, from = int(binary.LittleEndian.Uint32(from)), from[4:]
		}
		if n > len(from) {
			return nil, nil, errors.New("a value is cut off")
		}
		return from[:n], from[n:], nil
	}
	var words []T
	for from := p.words; p.indices != nil && len(from) > 0; {
		value, after, err := next(from)
		if err != nil {
			return nil, err
		}
		words, from = append(words, parse(value)), after
	}
	at, plain := 0, p.plain
	if p.rows < 0 || p.rows > maxRows {
		return nil, fmt.Errorf("a page has %d rows", p.rows)
	}
	for i := range p.rows {
		var value T
		switch {
		case p.defined != nil && p.defined[i] == 0:
		case p.indices != nil:
			if at >= len(p.indices) || p.indices[at] < 0 || int(p.indices[at]) >= len(words) {
				return nil, errors.New("an index is not in the dictionary")
			}
			value = words[p.indices[at]]
			at++
		default:
			text, after, err := next(plain)
			if err != nil {
				return nil, err
			}
			value, plain = parse(text), after
		}
		to = append(to, value)
	}
	return to, nil
}
