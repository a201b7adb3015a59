package parquet

import (
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Chunk gathers the values of a column in a group of rows. Chunks of one group
// may be filled at the same time.
type Chunk struct {
	column     Column
	full       int  // bytes at which a page is full
	statistics bool // each page tells its bounds

	// The page that is being filled.
	bools   []bool
	ints    []int64
	doubles []float64
	texts   []byte
	ends    []uint32 // where each text begins, and the last one ends
	defined []byte   // whether there is a value, by place, for optional columns and lists
	further []byte   // whether a place belongs to the row before, for lists
	rows    int

	// What has been filled.
	pages      [][]byte
	meta       format.ColumnMetaData
	index      format.ColumnIndex
	offsets    format.OffsetIndex
	lows       [][]byte // by page, in full
	highs      [][]byte
	totalRows  int64
	definition [2]int64
	repetition [2]int64
	textBytes  int64
}

// AddBool adds a row with a value.
func (c *Chunk) AddBool(v bool) { c.bools = append(c.bools, v); c.addRow(1) }

// AddInt adds a row with a value.
func (c *Chunk) AddInt(v int64) { c.ints = append(c.ints, v); c.addRow(1) }

// AddDouble adds a row with a value.
func (c *Chunk) AddDouble(v float64) { c.doubles = append(c.doubles, v); c.addRow(1) }

// AddText adds a row with a value.
func (c *Chunk) AddText(v string) {
	if len(c.ends) == 0 {
		c.ends = append(c.ends, 0)
	}
	c.texts = append(c.texts, v...)
	c.ends = append(c.ends, uint32(len(c.texts)))
	c.addRow(1)
}

// AddNull adds a row without a value.
func (c *Chunk) AddNull() { c.addRow(0) }

func (c *Chunk) addRow(defined byte) {
	c.rows++
	if c.column.hasLevels() {
		c.defined = append(c.defined, defined)
	}
	if c.column.List {
		c.further = append(c.further, 0)
	}
}

// AddList adds a row with a list of values.
func (c *Chunk) AddList(values []int32) {
	if len(values) == 0 {
		c.addRow(0)
		return
	}
	for i, v := range values {
		c.ints = append(c.ints, int64(v))
		c.defined, c.further = append(c.defined, 1), append(c.further, 1)
		if i == 0 {
			c.further[len(c.further)-1] = 0
		}
	}
	c.rows++
}

// countPlaces returns how many values the page has, those that are not there counted.
func (c *Chunk) countPlaces() int {
	if c.column.hasLevels() {
		return len(c.defined)
	}
	return c.rows
}

// pageSize returns how large the page is, as parquet-go counts.
func (c *Chunk) pageSize() int {
	n := (len(c.bools)+7)/8 + 8*len(c.doubles) + c.column.Kind.valueWidth()*len(c.ints) + len(c.texts) + 4*max(0, len(c.ends)-1)
	switch {
	case c.column.List:
		n += 8*c.rows + 2*len(c.defined)
	case c.column.Optional:
		n += 4*c.rows + len(c.defined)
	}
	return n
}

// EndBatch ends the page when it is full. The rows between two calls are in one
// page.
func (c *Chunk) EndBatch() error {
	if c.pageSize() < c.full {
		return nil
	}
	return c.endPage()
}

// resetGroup empties the chunk for the next group.
func (c *Chunk) resetGroup() {
	c.pages, c.lows, c.highs = c.pages[:0], nil, nil
	c.index, c.offsets = format.ColumnIndex{}, format.OffsetIndex{}
	c.totalRows, c.textBytes = 0, 0
	c.definition, c.repetition = [2]int64{}, [2]int64{}
	c.meta = format.ColumnMetaData{
		Type: c.column.Kind.physicalType(), PathInSchema: thrift.Slice[string]{c.column.Name},
		Encoding: thrift.Slice[format.Encoding]{c.column.valueEncoding()},
	}
	if c.column.hasLevels() {
		c.meta.Encoding = append(c.meta.Encoding, format.RLE)
		if c.meta.Encoding[0] > format.RLE {
			c.meta.Encoding[0], c.meta.Encoding[1] = c.meta.Encoding[1], c.meta.Encoding[0]
		}
	}
	if c.column.Snappy {
		c.meta.Codec = format.Snappy
	}
	c.resetPage()
}

func (c *Chunk) resetPage() {
	c.bools, c.ints, c.doubles, c.texts, c.ends = c.bools[:0], c.ints[:0], c.doubles[:0], c.texts[:0], c.ends[:0]
	c.defined, c.further, c.rows = c.defined[:0], c.further[:0], 0
}
