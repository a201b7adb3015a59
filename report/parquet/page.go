package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// longestBound is how many bytes of a text the index of pages has.
const longestBound = 16

// endPage writes the page and begins another.
func (c *Chunk) endPage() error {
	if c.countPlaces() == 0 {
		return nil
	}
	var definitions, repetitions []byte
	var err error
	if c.column.List {
		if repetitions, err = encodeLevels(c.further); err != nil {
			return err
		}
	}
	if c.column.hasLevels() {
		if definitions, err = encodeLevels(c.defined); err != nil {
			return err
		}
	}
	values, err := c.encodeValues()
	if err != nil {
		return err
	}
	levels := append(repetitions, definitions...)
	raw := len(levels) + len(values)
	if c.column.Snappy {
		if values, err = new(snappy.Codec).Encode(nil, values); err != nil {
			return err
		}
	}
	nulls := bytes.Count(c.defined, []byte{0})
	low, high := c.pageBounds()
	header := format.PageHeader{
		Type: format.DataPageV2, UncompressedPageSize: int32(raw), CompressedPageSize: int32(len(levels) + len(values)),
		CRC: int32(crc32.Update(crc32.ChecksumIEEE(levels), crc32.IEEETable, values)),
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{
			NumValues: int32(c.countPlaces()), NumNulls: int32(nulls), NumRows: int32(c.rows), Encoding: c.column.valueEncoding(),
			DefinitionLevelsByteLength: int32(len(definitions)), RepetitionLevelsByteLength: int32(len(repetitions)),
			IsCompressed: thrift.New(c.column.Snappy),
		}),
	}
	if c.statistics {
		header.DataPageHeaderV2.V.Statistics = format.Statistics{Min: low, Max: high, NullCount: int64(nulls), MinValue: low, MaxValue: high}
	}
	page, err := thrift.Marshal(new(thrift.CompactProtocol), &header)
	if err != nil {
		return err
	}
	head := len(page)
	page = append(append(page, levels...), values...)
	c.notePage(len(page), head+raw, nulls, low, high)
	c.pages = append(c.pages, page)
	c.resetPage()
	return nil
}

// encodeLevels encodes levels of 0 and 1.
func encodeLevels(levels []byte) ([]byte, error) {
	return (&rle.Encoding{BitWidth: 1}).EncodeLevels(nil, levels)
}

func (c *Chunk) encodeValues() (out []byte, err error) {
	switch k := c.column.Kind; {
	case k == Bool:
		out = make([]byte, (len(c.bools)+7)/8)
		for i, v := range c.bools {
			if v {
				out[i/8] |= 1 << (i % 8)
			}
		}
	case c.column.Delta:
		return new(delta.BinaryPackedEncoding).EncodeInt64(nil, c.ints)
	case k == Text:
		if len(c.ends) == 0 {
			c.ends = append(c.ends, 0)
		}
		return new(delta.LengthByteArrayEncoding).EncodeByteArray(nil, c.texts, c.ends)
	case k == Double:
		out = make([]byte, 0, 8*len(c.doubles))
		for _, v := range c.doubles {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(v))
		}
	case k == Int32:
		out = make([]byte, 0, 4*len(c.ints))
		for _, v := range c.ints {
			out = binary.LittleEndian.AppendUint32(out, uint32(v))
		}
	default:
		out = make([]byte, 0, 8*len(c.ints))
		for _, v := range c.ints {
			out = binary.LittleEndian.AppendUint64(out, uint64(v))
		}
	}
	return out, nil
}

// pageBounds returns the least and the greatest value of the page, encoded; nil when
// there is none.
func (c *Chunk) pageBounds() (low, high []byte) {
	switch k := c.column.Kind; {
	case k == Bool && len(c.bools) > 0:
		low, high = []byte{1}, []byte{0}
		for _, v := range c.bools {
			if v {
				high[0] = 1
			} else {
				low[0] = 0
			}
		}
	case k == Double && len(c.doubles) > 0:
		l, h := boundsOf(c.doubles)
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(l)), binary.LittleEndian.AppendUint64(nil, math.Float64bits(h))
	case len(c.ints) > 0:
		l, h := boundsOf(c.ints)
		return binary.LittleEndian.AppendUint64(nil, uint64(l))[:k.valueWidth()], binary.LittleEndian.AppendUint64(nil, uint64(h))[:k.valueWidth()]
	case k == Text && len(c.ends) > 1:
		low, high = c.texts[:c.ends[1]], c.texts[:c.ends[1]]
		for i := 1; i < len(c.ends); i++ {
			v := c.texts[c.ends[i-1]:c.ends[i]]
			if bytes.Compare(v, low) < 0 {
				low = v
			} else if bytes.Compare(v, high) > 0 {
				high = v
			}
		}
		return append([]byte{}, low...), append([]byte{}, high...)
	}
	return low, high
}

// boundsOf returns the least and the greatest of values that are numbers.
func boundsOf[T cmp.Ordered](values []T) (low, high T) {
	low, high = values[0], values[0]
	for _, v := range values[1:] {
		if v < low || low != low {
			low = v
		}
		if v > high || high != high {
			high = v
		}
	}
	return low, high
}

// compareEncoded orders two encoded values.
func (k Kind) compareEncoded(a, b []byte) int {
	switch k {
	case Int32:
		return cmp.Compare(int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
	case Int64:
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	case Double:
		return cmp.Compare(math.Float64frombits(binary.LittleEndian.Uint64(a)), math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return bytes.Compare(a, b)
}

// notePage adds a page of so many bytes, and so many without compression, to the
// index and the sums of the chunk.
func (c *Chunk) notePage(size, raw, nulls int, low, high []byte) {
	m := &c.meta
	c.offsets.PageLocations = append(c.offsets.PageLocations, format.PageLocation{
		Offset: m.TotalCompressedSize, CompressedPageSize: int32(size), FirstRowIndex: c.totalRows,
	})
	c.totalRows += int64(c.rows)
	c.textBytes += int64(len(c.texts))
	m.NumValues += int64(c.countPlaces())
	m.TotalCompressedSize += int64(size)
	m.TotalUncompressedSize += int64(raw)
	m.Statistics.NullCount += int64(nulls)
	if low != nil && (m.Statistics.MinValue == nil || c.column.Kind.compareEncoded(low, m.Statistics.MinValue) < 0) {
		m.Statistics.MinValue = low
	}
	if high != nil && (m.Statistics.MaxValue == nil || c.column.Kind.compareEncoded(high, m.Statistics.MaxValue) > 0) {
		m.Statistics.MaxValue = high
	}
	if len(m.EncodingStats) == 0 {
		m.EncodingStats = append(m.EncodingStats, format.PageEncodingStats{PageType: format.DataPageV2, Encoding: c.column.valueEncoding()})
	}
	m.EncodingStats[0].Count++

	x := &c.index
	x.NullPages = append(x.NullPages, nulls == c.countPlaces())
	x.NullCounts = append(x.NullCounts, int64(nulls))
	if low == nil {
		low, high = make([]byte, c.column.Kind.valueWidth()), make([]byte, c.column.Kind.valueWidth())
	}
	c.lows, c.highs = append(c.lows, low), append(c.highs, high)
	if c.column.hasLevels() {
		x.DefinitionLevelHistogram = appendCounts(x.DefinitionLevelHistogram, &c.definition, c.defined)
	}
	if c.column.List {
		x.RepetitionLevelHistogram = appendCounts(x.RepetitionLevelHistogram, &c.repetition, c.further)
	}
}

// appendCounts appends how often there is each level, and adds it to sum.
func appendCounts(to thrift.Slice[int64], sum *[2]int64, levels []byte) thrift.Slice[int64] {
	ones := int64(bytes.Count(levels, []byte{1}))
	zeros := int64(len(levels)) - ones
	sum[0], sum[1] = sum[0]+zeros, sum[1]+ones
	return append(to, zeros, ones)
}

// columnIndex returns the index of the chunk's pages.
func (c *Chunk) columnIndex() format.ColumnIndex {
	x := c.index
	for i := range c.lows {
		low, high := c.lows[i], c.highs[i]
		if c.column.Kind == Text {
			low, high = low[:min(len(low), longestBound)], shortenText(high)
		}
		x.MinValues, x.MaxValues = append(x.MinValues, low), append(x.MaxValues, high)
	}
	order := c.column.Kind.orderOf(x.MinValues)
	if order == c.column.Kind.orderOf(x.MaxValues) {
		x.BoundaryOrder = order
	}
	return x
}

// shortenText returns a short text that is not below v.
func shortenText(v []byte) []byte {
	if len(v) <= longestBound {
		return v
	}
	v = bytes.Clone(v[:longestBound])
	for i := len(v) - 1; i >= 0; i-- {
		if v[i]++; v[i] != 0 {
			return v
		}
	}
	return bytes.Repeat([]byte{0xff}, longestBound)
}

// orderOf returns the order in which encoded values are.
func (k Kind) orderOf(values [][]byte) format.BoundaryOrder {
	up, down := len(values) > 1, len(values) > 1
	for i := 1; i < len(values); i++ {
		n := k.compareEncoded(values[i-1], values[i])
		up, down = up && n <= 0, down && n >= 0
	}
	switch {
	case up:
		return format.Ascending
	case down:
		return format.Descending
	}
	return format.Unordered
}
