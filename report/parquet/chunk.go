package parquet

import (
	"bytes"
	"hash/crc32"
	"slices"

	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Chunk collects the values of a column in a row group. Several goroutines may fill the chunks of one group.
type Chunk struct {
	Values // of the page that is being filled

	full       int  // size in bytes at which a page ends
	statistics bool // each page tells its bounds

	// pages and the fields after it hold the finished pages.
	pages     [][]byte
	meta      format.ColumnMetaData
	index     format.ColumnIndex
	offsets   format.OffsetIndex
	totalRows int64
}

// pageSize returns the size of the page, as parquet-go counts it.
func (c *Chunk) pageSize() int {
	n := len(c.plain) + len(c.texts)
	switch c.column.Kind {
	case Bool:
		n = (n + 7) / 8
	case Text:
		n += 4 * c.countValues()
	}
	switch {
	case c.column.List:
		n += 8*c.countRows() + 2*len(c.Defined)
	case c.column.Optional:
		n += 5 * len(c.Defined)
	}
	return n
}

// EndBatch ends the page if it is full. The rows between two calls are in the same page.
func (c *Chunk) EndBatch() error {
	if c.pageSize() < c.full {
		return nil
	}
	return c.endPage()
}

// resetGroup empties the chunk for the next row group.
func (c *Chunk) resetGroup() {
	c.pages, c.index, c.offsets, c.totalRows = c.pages[:0], format.ColumnIndex{}, format.OffsetIndex{}, 0
	c.meta = format.ColumnMetaData{
		Type: c.column.Kind, PathInSchema: thrift.Slice[string]{c.column.Name},
		Encoding: thrift.Slice[format.Encoding]{c.column.valueEncoding()},
	}
	if c.column.hasLevels() {
		c.meta.Encoding = append(c.meta.Encoding, format.RLE)
		if c.meta.Encoding[0] > format.RLE {
			c.meta.Encoding[0], c.meta.Encoding[1] = c.meta.Encoding[1], c.meta.Encoding[0]
		}
		c.meta.SizeStatistics.DefinitionLevelHistogram = thrift.Slice[int64]{0, 0}
	}
	if c.column.List {
		c.meta.SizeStatistics.RepetitionLevelHistogram = thrift.Slice[int64]{0, 0}
	}
	if c.column.Snappy {
		c.meta.Codec = format.Snappy
	}
	c.reset()
}

// endPage writes the page and begins a new one.
func (c *Chunk) endPage() error {
	if c.Len() == 0 {
		return nil
	}
	var definitions, repetitions []byte
	var err error
	if c.column.List {
		if repetitions, err = encodeLevels(c.Further); err != nil {
			return err
		}
	}
	if c.column.hasLevels() {
		if definitions, err = encodeLevels(c.Defined); err != nil {
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
	nulls := bytes.Count(c.Defined, []byte{0})
	low, high := c.findBounds()
	header := format.PageHeader{
		Type: format.DataPageV2, UncompressedPageSize: int32(raw), CompressedPageSize: int32(len(levels) + len(values)),
		CRC: int32(crc32.Update(crc32.ChecksumIEEE(levels), crc32.IEEETable, values)),
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{
			NumValues: int32(c.Len()), NumNulls: int32(nulls), NumRows: int32(c.countRows()), Encoding: c.column.valueEncoding(),
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
	c.reset()
	return nil
}

// notePage adds a page of size bytes (raw bytes before compression) to the index and the sums of the chunk.
func (c *Chunk) notePage(size, raw, nulls int, low, high []byte) {
	m := &c.meta
	c.offsets.PageLocations = append(c.offsets.PageLocations, format.PageLocation{
		Offset: m.TotalCompressedSize, CompressedPageSize: int32(size), FirstRowIndex: c.totalRows,
	})
	c.totalRows += int64(c.countRows())
	m.SizeStatistics.UnencodedByteArrayDataBytes += int64(len(c.texts))
	m.NumValues += int64(c.Len())
	m.TotalCompressedSize += int64(size)
	m.TotalUncompressedSize += int64(raw)
	m.Statistics.NullCount += int64(nulls)
	if low != nil && (m.Statistics.MinValue == nil || c.column.compareEncoded(low, m.Statistics.MinValue) < 0) {
		m.Statistics.MinValue = low
	}
	if high != nil && (m.Statistics.MaxValue == nil || c.column.compareEncoded(high, m.Statistics.MaxValue) > 0) {
		m.Statistics.MaxValue = high
	}
	if len(m.EncodingStats) == 0 {
		m.EncodingStats = append(m.EncodingStats, format.PageEncodingStats{PageType: format.DataPageV2, Encoding: c.column.valueEncoding()})
	}
	m.EncodingStats[0].Count++

	x := &c.index
	x.NullPages = append(x.NullPages, nulls == c.Len())
	x.NullCounts = append(x.NullCounts, int64(nulls))
	if low == nil {
		low, high = make([]byte, c.column.valueWidth()), make([]byte, c.column.valueWidth())
	}
	if c.column.Kind == Text {
		low, high = low[:min(len(low), longestBound)], shortenText(high)
	}
	x.MinValues, x.MaxValues = append(x.MinValues, low), append(x.MaxValues, high)
	if c.column.hasLevels() {
		x.DefinitionLevelHistogram = appendCounts(x.DefinitionLevelHistogram, m.SizeStatistics.DefinitionLevelHistogram, c.Defined)
	}
	if c.column.List {
		x.RepetitionLevelHistogram = appendCounts(x.RepetitionLevelHistogram, m.SizeStatistics.RepetitionLevelHistogram, c.Further)
	}
}

// appendCounts appends the number of occurrences of each level, and adds it to sum.
func appendCounts(to, sum thrift.Slice[int64], levels []byte) thrift.Slice[int64] {
	ones := int64(bytes.Count(levels, []byte{1}))
	zeros := int64(len(levels)) - ones
	sum[0], sum[1] = sum[0]+zeros, sum[1]+ones
	return append(to, zeros, ones)
}

// longestBound is the maximum number of bytes of a text in the page index.
const longestBound = 16

// shortenText returns a short text that is not less than v.
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

// setBoundaryOrder records whether the bounds of the pages are ascending or descending.
func (c *Chunk) setBoundaryOrder() {
	order := c.orderOf(c.index.MinValues)
	if order == c.orderOf(c.index.MaxValues) {
		c.index.BoundaryOrder = order
	}
}

// orderOf returns the order of encoded values.
func (c *Chunk) orderOf(values [][]byte) format.BoundaryOrder {
	descending := func(a, b []byte) int { return c.column.compareEncoded(b, a) }
	switch {
	case len(values) < 2:
		return format.Unordered
	case slices.IsSortedFunc(values, c.column.compareEncoded):
		return format.Ascending
	case slices.IsSortedFunc(values, descending):
		return format.Descending
	}
	return format.Unordered
}
