package parquetfile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// page has the values of one page.
type page struct {
	levels   int     // number of values, including absent values
	repeated []int32 // repetition levels; nil: all 0
	defined  []int32 // definition levels; nil: no value is absent
	values   values
}

// values are texts, or numbers as the bits of their type.
type values struct {
	numbers []uint64
	texts   [][]byte
}

// column reads the pages of a column chunk.
type column struct {
	file  *File
	leaf  *node
	meta  *format.ColumnMetaData
	text  []byte
	in    *bytes.Reader
	words values // the dictionary
}

// openColumn returns a reader of a column chunk. openColumn decodes no pages.
func (f *File) openColumn(group *format.RowGroup, at int) (*column, error) {
	if at >= len(group.Columns) {
		return nil, fmt.Errorf("a row group has %d columns, must be %d", len(group.Columns), len(f.leaves))
	}
	c := &column{file: f, leaf: f.leaves[at], meta: &group.Columns[at].MetaData}
	if c.leaf.Type.V != c.meta.Type {
		return nil, fmt.Errorf("%s: type %v, must be %v", c.leaf.Name, c.meta.Type, c.leaf.Type.V)
	}
	var err error
	if c.text, err = f.readChunk(c.meta); err != nil {
		return nil, fmt.Errorf("%s: %w", c.leaf.Name, err)
	}
	c.in = bytes.NewReader(c.text)
	return c, nil
}

// next decodes the next page. next returns io.EOF after the last page.
func (c *column) next() (*page, error) {
	for c.in.Len() > 0 {
		var header format.PageHeader
		if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(c.in)).Decode(&header); err != nil {
			return nil, fmt.Errorf("header of a page: %w", err)
		}
		at := len(c.text) - c.in.Len()
		if header.CompressedPageSize < 0 || int(header.CompressedPageSize) > c.in.Len() {
			return nil, fmt.Errorf("a page has %d bytes, must be at most %d", header.CompressedPageSize, c.in.Len())
		}
		body := c.text[at : at+int(header.CompressedPageSize)]
		if _, err := c.in.Seek(int64(len(body)), io.SeekCurrent); err != nil {
			return nil, err
		}
		if header.Type != format.DictionaryPage {
			return c.readPage(&header, body)
		}
		words, err := c.file.decompress(c.meta.Codec, body)
		if err != nil {
			return nil, err
		}
		if c.words, err = c.plainValues(words, int(header.DictionaryPageHeader.V.NumValues)); err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

// readPage decompresses a page and decodes its levels and values.
func (c *column) readPage(header *format.PageHeader, body []byte) (*page, error) {
	p := &page{}
	var encoding format.Encoding
	var err error
	switch header.Type {
	case format.DataPage:
		h := &header.DataPageHeader.V
		p.levels, encoding = int(h.NumValues), h.Encoding
		if body, err = c.file.decompress(c.meta.Codec, body); err != nil {
			return nil, err
		}
		if p.repeated, body, err = cutLevels(body, c.leaf.repetition, p.levels); err != nil {
			return nil, err
		}
		if p.defined, body, err = cutLevels(body, c.leaf.defined, p.levels); err != nil {
			return nil, err
		}
	case format.DataPageV2:
		h := &header.DataPageHeaderV2.V
		p.levels, encoding = int(h.NumValues), h.Encoding
		r, d := int(h.RepetitionLevelsByteLength), int(h.DefinitionLevelsByteLength)
		if r < 0 || d < 0 || r > len(body) || d > len(body)-r {
			return nil, errors.New("the levels of a page are cut off")
		}
		if p.repeated, err = decodeLevels(body[:r], c.leaf.repetition, p.levels); err != nil {
			return nil, err
		}
		if p.defined, err = decodeLevels(body[r:r+d], c.leaf.defined, p.levels); err != nil {
			return nil, err
		}
		if body = body[r+d:]; !h.IsCompressed.Valid || h.IsCompressed.V {
			body, err = c.file.decompress(c.meta.Codec, body)
		}
		if err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("page type %v is not supported", header.Type)
	}
	n := p.levels
	for _, d := range p.defined {
		if d < c.leaf.defined {
			n--
		}
	}
	p.values, err = c.decodeValues(encoding, body, n)
	return p, err
}

// cutLevels decodes levels with a length prefix, and returns the remaining bytes of the page.
func cutLevels(text []byte, most int32, n int) ([]int32, []byte, error) {
	if most == 0 {
		return nil, text, nil
	}
	if len(text) < 4 || int64(binary.LittleEndian.Uint32(text)) > int64(len(text)-4) {
		return nil, nil, errors.New("the levels of a page are cut off")
	}
	end := 4 + int(binary.LittleEndian.Uint32(text))
	levels, err := decodeLevels(text[4:end], most, n)
	return levels, text[end:], err
}

// decodeLevels decodes n levels of at most most. decodeLevels returns nil if all levels are 0.
func decodeLevels(text []byte, most int32, n int) ([]int32, error) {
	if most == 0 {
		return nil, nil
	}
	return decodeRuns(text, bits.Len32(uint32(most)), n)
}

// oldDictionary is the encoding that older writers declare for pages of dictionary indices.
const oldDictionary format.Encoding = 2

// decodeValues decodes the n values of a page.
func (c *column) decodeValues(encoding format.Encoding, body []byte, n int) (values, error) {
	switch kind := c.meta.Type; encoding {
	case format.Plain:
		return c.plainValues(body, n)
	case oldDictionary, format.RLEDictionary:
		if n == 0 {
			return values{}, nil
		}
		if len(body) == 0 || body[0] > 31 {
			return values{}, errors.New("the indices of a page are cut off")
		}
		indices, err := decodeRuns(body[1:], int(body[0]), n)
		if err != nil {
			return values{}, err
		}
		return c.lookUp(indices)
	case format.RLE:
		if kind != format.Boolean {
			break
		}
		levels, _, err := cutLevels(body, 1, n)
		v := values{numbers: make([]uint64, len(levels))}
		for i, level := range levels {
			v.numbers[i] = uint64(level)
		}
		return v, err
	case format.DeltaBinaryPacked:
		return decodeDeltas(kind, body, n)
	case format.DeltaLengthByteArray:
		text, ends, err := new(delta.LengthByteArrayEncoding).DecodeByteArray(nil, body, nil)
		if err != nil {
			return values{}, err
		}
		if len(ends) != n+1 {
			return values{}, fmt.Errorf("a page has %d texts, must be %d", len(ends)-1, n)
		}
		v := values{texts: make([][]byte, n)}
		for i := range v.texts {
			v.texts[i] = text[ends[i]:ends[i+1]]
		}
		return v, nil
	}
	return values{}, fmt.Errorf("encoding %v is not supported", encoding)
}

// decodeDeltas decodes delta-encoded integers.
func decodeDeltas(kind format.Type, body []byte, n int) (v values, err error) {
	switch kind {
	case format.Int32:
		var all []int32
		all, err = new(delta.BinaryPackedEncoding).DecodeInt32(nil, body)
		for _, x := range all {
			v.numbers = append(v.numbers, uint64(uint32(x)))
		}
	case format.Int64:
		var all []int64
		all, err = new(delta.BinaryPackedEncoding).DecodeInt64(nil, body)
		for _, x := range all {
			v.numbers = append(v.numbers, uint64(x))
		}
	default:
		err = errors.New("differences of values that are no whole numbers")
	}
	if err == nil && len(v.numbers) != n {
		err = fmt.Errorf("a page has %d numbers, must be %d", len(v.numbers), n)
	}
	return v, err
}

// lookUp returns the dictionary values for the given indices.
func (c *column) lookUp(indices []int32) (v values, err error) {
	texts := c.meta.Type == format.ByteArray
	if texts {
		v.texts = make([][]byte, len(indices))
	} else {
		v.numbers = make([]uint64, len(indices))
	}
	for i, x := range indices {
		switch {
		case x < 0 || int(x) >= len(c.words.texts)+len(c.words.numbers):
			return values{}, errors.New("an index is not in the dictionary")
		case texts:
			v.texts[i] = c.words.texts[x]
		default:
			v.numbers[i] = c.words.numbers[x]
		}
	}
	return v, nil
}

// plainValues decodes n values of the plain encoding.
func (c *column) plainValues(text []byte, n int) (v values, err error) {
	cut := errors.New("a value is cut off")
	width := 0
	switch c.meta.Type {
	case format.Boolean:
		if n < 0 || n > 8*len(text) {
			return v, cut
		}
		v.numbers = make([]uint64, n)
		for i := range v.numbers {
			v.numbers[i] = uint64(text[i/8] >> (i % 8) & 1)
		}
		return v, nil
	case format.Int32, format.Float:
		width = 4
	case format.Int64, format.Double:
		width = 8
	case format.ByteArray:
		if n < 0 || n > len(text)/4 {
			return v, cut
		}
		v.texts = make([][]byte, n)
		for i := range v.texts {
			if len(text) < 4 || int64(binary.LittleEndian.Uint32(text)) > int64(len(text)-4) {
				return v, cut
			}
			end := 4 + int(binary.LittleEndian.Uint32(text))
			v.texts[i], text = text[4:end], text[end:]
		}
		return v, nil
	default:
		return v, fmt.Errorf("type %v is not supported", c.meta.Type)
	}
	if n < 0 || n > len(text)/width {
		return v, cut
	}
	v.numbers = make([]uint64, n)
	for i := range v.numbers {
		if width == 4 {
			v.numbers[i] = uint64(binary.LittleEndian.Uint32(text[4*i:]))
		} else {
			v.numbers[i] = binary.LittleEndian.Uint64(text[8*i:])
		}
	}
	return v, nil
}

func (f *File) decompress(codec format.CompressionCodec, body []byte) ([]byte, error) {
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
	case format.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(r, maxPage+1))
		if err == nil && len(text) > maxPage {
			err = fmt.Errorf("a page of more than %d bytes", maxPage)
		}
		return text, err
	case format.Zstd:
		return f.zstd.DecodeAll(body, nil)
	}
	return nil, fmt.Errorf("compression %v is not supported: must be none, snappy, gzip or zstd", codec)
}

// decodeRuns decodes n integers of width bits in the hybrid encoding: runs of one value, and groups of eight
// bit-packed values.
func decodeRuns(text []byte, width, n int) ([]int32, error) {
	if n < 0 || n > maxValues {
		return nil, fmt.Errorf("a page has %d values, must have at most %d", n, maxValues)
	}
	all := make([]int32, 0, min(n, 1<<20))
	size := (width + 7) / 8
	for len(all) < n {
		header, read := binary.Uvarint(text)
		if read <= 0 {
			return nil, errors.New("a run is cut off")
		}
		text = text[read:]
		count := int(min(header>>1, maxValues))
		if header&1 == 0 {
			if size > len(text) {
				return nil, errors.New("a run is cut off")
			}
			value := unpackBits(text[:size], 0, width)
			for range min(count, n-len(all)) {
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
		for i := range min(8*count, n-len(all)) {
			all = append(all, unpackBits(text, i*width, width))
		}
		text = text[count*width:]
	}
	return all, nil
}

// unpackBits returns the integer of width bits that starts at bit from, least significant bit first.
func unpackBits(text []byte, from, width int) int32 {
	value := uint64(0)
	for i := 0; i < width; {
		at := from + i
		value |= uint64(text[at/8]>>(at%8)) << i
		i += 8 - at%8
	}
	return int32(value & (1<<width - 1))
}
